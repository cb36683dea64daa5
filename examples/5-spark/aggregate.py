"""A stream of orders, counted per region, and the counts published to another topic."""

import os
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

# Spark's default is 200, for data that needs them.
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
endpoint = os.environ.get("PUBSUB_EMULATOR_HOST", "127.0.0.1:8085")

orders = (
    spark.readStream.format("fanlog")
    .option("endpoint", endpoint)
    .option("topic", "projects/examples/topics/sales")
    .option("startingOffsets", "earliest")
    .load()
)
counts = orders.groupBy(orders.attributes["region"].alias("region")).count()
query = (
    counts.select(
        F.to_json(F.struct("region", "count")).cast("binary").alias("data"),
        F.col("region").alias("ordering_key"),
    )
    .writeStream.format("fanlog")
    .option("endpoint", endpoint)
    .option("topic", "projects/examples/topics/sales-counts")
    .option("checkpointLocation", tempfile.mkdtemp())
    .outputMode("complete")
    # With what there is; without this line it goes on for ever.
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print("published the counts")
