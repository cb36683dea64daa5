import com.google.api.core.ApiFuture;
import com.google.api.core.ApiFutureCallback;
import com.google.api.core.ApiFutures;
import com.google.api.gax.retrying.RetrySettings;
import com.google.cloud.pubsub.v1.AckReplyConsumerWithResponse;
import com.google.cloud.pubsub.v1.AckResponse;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.gson.JsonObject;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Publishes and receives at the same time, and remembers what became of each message. */
final class Flow {
  /** By itself the client waits up to 60 s after an outage. */
  private static final RetrySettings RETRY =
      RetrySettings.newBuilder()
          .setInitialRetryDelayDuration(Duration.ofMillis(100))
          .setRetryDelayMultiplier(1.3)
          .setMaxRetryDelayDuration(Duration.ofSeconds(1))
          .setInitialRpcTimeoutDuration(Duration.ofSeconds(Program.PATIENCE_S))
          .setMaxRpcTimeoutDuration(Duration.ofSeconds(Program.PATIENCE_S))
          .setTotalTimeoutDuration(Duration.ofSeconds(Program.PATIENCE_S))
          .build();

  private final Publisher publisher;
  private final Subscriber subscriber;
  private final ByteString data;
  private final int ahead;
  private final Thread publishing = new Thread(this::publish);

  // All of these under this object's lock.
  private boolean isEnding;
  private int begun;
  private int again;
  private final Set<String> published = new HashSet<>();
  private final Set<String> received = new HashSet<>();
  // By message id: a publish that was sent twice may be published twice.
  private final Set<String> delivered = new HashSet<>();
  private final Set<String> acked = new HashSet<>();
  private final List<String> failed = new ArrayList<>();

  Flow(Connection connection, JsonObject command) throws Exception {
    data = ByteString.copyFromUtf8(".".repeat(command.get("size").getAsInt()));
    ahead = command.get("ahead").getAsInt();
    publisher =
        Publisher.newBuilder(command.get("topic").getAsString())
            .setChannelProvider(connection.grpc())
            .setCredentialsProvider(Connection.CREDENTIALS)
            .setRetrySettings(RETRY)
            .build();
    subscriber =
        Subscriber.newBuilder(command.get("subscription").getAsString(), this::receive)
            .setChannelProvider(connection.grpc())
            .setCredentialsProvider(Connection.CREDENTIALS)
            .build();
    subscriber.startAsync().awaitRunning();
    publishing.start();
  }

  private void publish() {
    for (String number = next(); number != null; number = next()) {
      send(number);
    }
  }

  /** The number to publish next, once few enough are under way; null at the end. */
  private synchronized String next() {
    try {
      while (!isEnding
          && begun - Math.min(published.size() + failed.size(), received.size()) >= ahead) {
        wait();
      }
    } catch (InterruptedException error) {
      return null;
    }
    return isEnding ? null : String.valueOf(begun++);
  }

  private void send(String number) {
    ApiFuture<String> result =
        publisher.publish(
            PubsubMessage.newBuilder().setData(data).putAttributes("number", number).build());
    tell(
        result,
        id -> note(() -> published.add(number)),
        error -> note(() -> failed.add(error.toString())));
  }

  private void receive(PubsubMessage message, AckReplyConsumerWithResponse reply) {
    String id = message.getMessageId();
    note(
        () -> {
          received.add(message.getAttributesOrThrow("number"));
          delivered.add(id);
          again += acked.contains(id) ? 1 : 0;
        });
    // Declared as a plain future, and made as one that tells.
    tell(
        (ApiFuture<AckResponse>) reply.ack(),
        answer -> note(() -> confirm(id, answer)),
        error -> {}); // it comes again
  }

  private void confirm(String id, AckResponse answer) {
    if (answer == AckResponse.SUCCESSFUL) {
      acked.add(id);
    }
  }

  private static <T> void tell(
      ApiFuture<T> future, Consumer<T> whenDone, Consumer<Throwable> whenFailed) {
    ApiFutures.addCallback(
        future,
        new ApiFutureCallback<T>() {
          @Override
          public void onSuccess(T result) {
            whenDone.accept(result);
          }

          @Override
          public void onFailure(Throwable error) {
            whenFailed.accept(error);
          }
        },
        MoreExecutors.directExecutor());
  }

  private synchronized void note(Runnable change) {
    change.run();
    notifyAll();
  }

  synchronized JsonObject count() {
    var answer = new JsonObject();
    answer.addProperty("published", published.size());
    answer.addProperty("received", received.size());
    return answer;
  }

  private synchronized int lost() {
    var lost = new HashSet<>(published);
    lost.removeAll(received);
    return lost.size();
  }

  /** Ends publishing, and waits until everything published has come. */
  JsonObject pause() throws Exception {
    note(() -> isEnding = true);
    publishing.join();
    publisher.publishAllOutstanding();
    awaitWhole();
    return count();
  }

  JsonObject end() throws Exception {
    pause();
    publisher.shutdown();
    publisher.awaitTermination(Program.PATIENCE_S, TimeUnit.SECONDS);
    subscriber.stopAsync().awaitTerminated(Program.PATIENCE_S, TimeUnit.SECONDS);
    JsonObject answer = count();
    answer.addProperty("lost", lost());
    answer.addProperty("delivered", delivered.size());
    answer.addProperty("acked", acked.size());
    answer.addProperty("again", again);
    answer.add("failed", Program.JSON.toJsonTree(failed));
    return answer;
  }

  private synchronized void awaitWhole() throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Program.PATIENCE_S);
    while (published.size() + failed.size() < begun || lost() > 0) {
      long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
      if (left <= 0) {
        return;
      }
      wait(left);
    }
  }
}
