import com.google.api.gax.core.NoCredentialsProvider;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.SubscriptionAdminSettings;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.Subscription;
import io.grpc.ManagedChannelBuilder;
import java.util.concurrent.CountDownLatch;

/**
 * The README's program in Java.
 *
 * <pre>PUBSUB_EMULATOR_HOST=127.0.0.1:8085 mvn -q compile exec:java</pre>
 */
public class Orders {
  static final String TOPIC = "projects/fanlog/topics/java-invoices";
  static final String SUBSCRIPTION = "projects/fanlog/subscriptions/java-ledger";

  public static void main(String[] args) throws Exception {
    // Alone among the clients, Java's does not read this variable itself.
    var channel =
        TopicAdminSettings.defaultGrpcTransportProviderBuilder()
            .setEndpoint(System.getenv("PUBSUB_EMULATOR_HOST"))
            .setChannelConfigurator(ManagedChannelBuilder::usePlaintext)
            .build();
    var nobody = NoCredentialsProvider.create();

    var topicSettings =
        TopicAdminSettings.newBuilder()
            .setTransportChannelProvider(channel)
            .setCredentialsProvider(nobody)
            .build();
    try (var topics = TopicAdminClient.create(topicSettings)) {
      topics.createTopic(TOPIC);
    }
    var subscriptionSettings =
        SubscriptionAdminSettings.newBuilder()
            .setTransportChannelProvider(channel)
            .setCredentialsProvider(nobody)
            .build();
    try (var subscriptions = SubscriptionAdminClient.create(subscriptionSettings)) {
      subscriptions.createSubscription(
          Subscription.newBuilder().setName(SUBSCRIPTION).setTopic(TOPIC).build());
    }

    var publisher =
        Publisher.newBuilder(TOPIC)
            .setChannelProvider(channel)
            .setCredentialsProvider(nobody)
            .build();
    publisher
        .publish(
            PubsubMessage.newBuilder()
                .setData(ByteString.copyFromUtf8("two chairs"))
                .putAttributes("region", "eu")
                .build())
        .get(); // durable when this returns
    publisher.shutdown();

    var done = new CountDownLatch(1);
    MessageReceiver receiver =
        (message, reply) -> {
          System.out.println(
              "received " + message.getData().toStringUtf8() + " " + message.getAttributesMap());
          reply.ack();
          done.countDown();
        };
    var subscriber =
        Subscriber.newBuilder(SUBSCRIPTION, receiver)
            .setChannelProvider(channel)
            .setCredentialsProvider(nobody)
            .build();
    subscriber.startAsync().awaitRunning();
    done.await();
    subscriber.stopAsync().awaitTerminated();
  }
}
