"""A topic as a table: orders per region, with Spark. Run sales.py first."""

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
endpoint = os.environ.get("PUBSUB_EMULATOR_HOST", "127.0.0.1:8085")

orders = (
    spark.read.format("fanlog")
    .option("endpoint", endpoint)
    .option("topic", "projects/examples/topics/sales")
    .load()
)
(
    orders.withColumn("order", F.from_json(orders.data.cast("string"), "item string, amount int"))
    .groupBy(orders.attributes["region"].alias("region"))
    .agg(F.count("*").alias("orders"), F.sum("order.amount").alias("amount"))
    .orderBy("region")
    .show()
)
