import com.google.api.core.ApiFuture;
import com.google.api.core.ApiFutures;
import com.google.api.gax.rpc.ApiException;
import com.google.cloud.pubsub.v1.AckResponse;
import com.google.cloud.pubsub.v1.MessageReceiverWithAckResponse;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.protobuf.ByteString;
import com.google.protobuf.util.Timestamps;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.SeekRequest;
import com.google.pubsub.v1.Subscription;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;

/**
 * The Java client as a program: commands on standard input, an answer a line. programs/README.md
 * lists the commands.
 *
 * <pre>java -cp ... Program ENDPOINT [CA [KEEP_ALIVE_S]]</pre>
 */
public final class Program {
  static final int PATIENCE_S = 60;
  static final Gson JSON = new Gson();

  private final Connection connection;
  private final TopicAdminClient topics;
  private final SubscriptionAdminClient subscriptions;
  private Flow flow;

  private Program(Connection connection) throws Exception {
    this.connection = connection;
    topics = connection.topics();
    subscriptions = connection.subscriptions();
  }

  private JsonObject run(JsonObject command) throws Exception {
    switch (command.get("do").getAsString()) {
      case "create":
        return create(command);
      case "publish":
        return publish(command);
      case "receive":
        return receive(command);
      case "seek":
        return seek(command);
      case "flow":
        flow = new Flow(connection, command);
        return new JsonObject();
      case "count":
        return flow.count();
      case "pause":
        return flow.pause();
      case "end":
        return flow.end();
      case "rest":
        return rest(command);
      case "look":
        return look(command);
      case "exchange":
        return exchange(command);
      default:
        throw new IllegalArgumentException("no command " + command.get("do"));
    }
  }

  private JsonObject create(JsonObject command) {
    topics.createTopic(command.get("topic").getAsString());
    subscriptions.createSubscription(
        Subscription.newBuilder()
            .setName(command.get("subscription").getAsString())
            .setTopic(command.get("topic").getAsString())
            .setRetainAckedMessages(true)
            .setEnableExactlyOnceDelivery(command.get("exactly_once").getAsBoolean())
            .build());
    return new JsonObject();
  }

  private JsonObject publish(JsonObject command) throws Exception {
    var publisher =
        Publisher.newBuilder(command.get("topic").getAsString())
            .setChannelProvider(connection.grpc())
            .setCredentialsProvider(Connection.CREDENTIALS)
            .build();
    List<ApiFuture<String>> results = new ArrayList<>();
    for (var one : command.getAsJsonArray("data")) {
      results.add(
          publisher.publish(
              PubsubMessage.newBuilder()
                  .setData(ByteString.copyFromUtf8(one.getAsString()))
                  .putAttributes("client", "java")
                  .build()));
    }
    var ids = ApiFutures.allAsList(results).get(PATIENCE_S, TimeUnit.SECONDS);
    publisher.shutdown();
    publisher.awaitTermination(PATIENCE_S, TimeUnit.SECONDS);
    var answer = new JsonObject();
    answer.add("ids", JSON.toJsonTree(ids));
    return answer;
  }

  private JsonObject receive(JsonObject command) throws Exception {
    var received = new ConcurrentLinkedQueue<String>();
    var acks = new ConcurrentLinkedQueue<Future<AckResponse>>();
    var missing = new CountDownLatch(command.get("count").getAsInt());
    MessageReceiverWithAckResponse receiver =
        (message, reply) -> {
          received.add(message.getData().toStringUtf8());
          acks.add(reply.ack());
          missing.countDown();
        };
    var subscriber =
        Subscriber.newBuilder(command.get("subscription").getAsString(), receiver)
            .setChannelProvider(connection.grpc())
            .setCredentialsProvider(Connection.CREDENTIALS)
            .build();
    subscriber.startAsync().awaitRunning();
    missing.await(PATIENCE_S, TimeUnit.SECONDS);
    for (var ack : acks) {
      AckResponse answered = ack.get(PATIENCE_S, TimeUnit.SECONDS);
      if (answered != AckResponse.SUCCESSFUL) {
        throw new IllegalStateException("an ack was answered by " + answered);
      }
    }
    subscriber.stopAsync().awaitTerminated(PATIENCE_S, TimeUnit.SECONDS);
    var answer = new JsonObject();
    answer.add("received", JSON.toJsonTree(received));
    return answer;
  }

  private JsonObject seek(JsonObject command) {
    long micros = (long) (command.get("time_s").getAsDouble() * 1e6);
    subscriptions.seek(
        SeekRequest.newBuilder()
            .setSubscription(command.get("subscription").getAsString())
            .setTime(Timestamps.fromMicros(micros))
            .build());
    return new JsonObject();
  }

  /** The generated clients over HTTP/1.1. */
  private JsonObject rest(JsonObject command) throws Exception {
    String topic = command.get("topic").getAsString();
    String subscription = command.get("subscription").getAsString();
    var data = ByteString.copyFromUtf8(command.get("data").getAsString());
    var received = new JsonArray();
    try (var publisher = connection.restTopics();
        var subscriber = connection.restSubscriptions()) {
      publisher.createTopic(topic);
      subscriber.createSubscription(
          Subscription.newBuilder().setName(subscription).setTopic(topic).build());
      publisher.publish(topic, List.of(PubsubMessage.newBuilder().setData(data).build()));
      var ackIds = new ArrayList<String>();
      for (var one : subscriber.pull(subscription, 10).getReceivedMessagesList()) {
        received.add(one.getMessage().getData().toStringUtf8());
        ackIds.add(one.getAckId());
      }
      subscriber.acknowledge(subscription, ackIds);
    }
    var answer = new JsonObject();
    answer.add("received", received);
    return answer;
  }

  private JsonObject look(JsonObject command) {
    var answer = new JsonObject();
    try {
      topics.getTopic(command.get("topic").getAsString());
      answer.addProperty("code", "OK");
    } catch (ApiException error) {
      answer.addProperty("code", error.getStatusCode().getCode().name());
    }
    return answer;
  }

  private JsonObject exchange(JsonObject command) throws Exception {
    String token = connection.exchange(command.get("scope").getAsString());
    var answer = new JsonObject();
    answer.addProperty("kind", token.substring(0, 4));
    answer.addProperty("status", connection.get(command.get("path").getAsString(), token));
    return answer;
  }

  public static void main(String[] arguments) throws Exception {
    var program = new Program(new Connection(arguments));
    var input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      long began = System.nanoTime();
      JsonObject answer;
      try {
        answer = program.run(JSON.fromJson(line, JsonObject.class));
      } catch (Exception error) {
        answer = new JsonObject();
        answer.addProperty("error", error.toString());
      }
      answer.addProperty("took_s", (System.nanoTime() - began) / 1e9);
      System.out.println(JSON.toJson(answer));
    }
    System.exit(0);
  }
}
