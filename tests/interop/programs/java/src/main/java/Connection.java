import com.google.api.gax.core.CredentialsProvider;
import com.google.api.gax.core.NoCredentialsProvider;
import com.google.api.gax.grpc.InstantiatingGrpcChannelProvider;
import com.google.api.gax.httpjson.InstantiatingHttpJsonChannelProvider;
import com.google.api.gax.rpc.TransportChannelProvider;
import com.google.api.client.http.GenericUrl;
import com.google.api.client.http.javanet.NetHttpTransport;
import com.google.auth.oauth2.ServiceAccountCredentials;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.SubscriptionAdminSettings;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import io.grpc.ManagedChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.File;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;

/** Where the server is, and how the client's parts are told. */
final class Connection {
  /** Of the key file that the environment names, as the client has it by itself; or none. */
  static final CredentialsProvider CREDENTIALS =
      System.getenv("GOOGLE_APPLICATION_CREDENTIALS") == null
          ? NoCredentialsProvider.create()
          : TopicAdminSettings.defaultCredentialsProviderBuilder().build();

  private final String endpoint;
  private final String authority;
  private final String keepAlive;

  Connection(String[] arguments) {
    endpoint = arguments[0];
    authority = arguments.length > 1 ? arguments[1] : "";
    keepAlive = arguments.length > 2 ? arguments[2] : "";
  }

  /** The client's own settings, but for what the transport is secured with. */
  TransportChannelProvider grpc() {
    InstantiatingGrpcChannelProvider.Builder builder =
        TopicAdminSettings.defaultGrpcTransportProviderBuilder()
            .setEndpoint(endpoint)
            .setChannelConfigurator(this::secure);
    if (!keepAlive.isEmpty()) {
      builder
          .setKeepAliveTimeDuration(Duration.ofMillis((long) (Double.parseDouble(keepAlive) * 1000)))
          .setKeepAliveWithoutCalls(true);
    }
    return builder.build();
  }

  private ManagedChannelBuilder<?> secure(ManagedChannelBuilder<?> builder) {
    if (authority.isEmpty()) {
      return builder.usePlaintext();
    }
    try {
      var context = GrpcSslContexts.forClient().trustManager(new File(authority)).build();
      return ((NettyChannelBuilder) builder).sslContext(context);
    } catch (javax.net.ssl.SSLException error) {
      throw new IllegalStateException(error);
    }
  }

  TopicAdminClient topics() throws Exception {
    return TopicAdminClient.create(
        TopicAdminSettings.newBuilder()
            .setTransportChannelProvider(grpc())
            .setCredentialsProvider(CREDENTIALS)
            .build());
  }

  SubscriptionAdminClient subscriptions() throws Exception {
    return SubscriptionAdminClient.create(
        SubscriptionAdminSettings.newBuilder()
            .setTransportChannelProvider(grpc())
            .setCredentialsProvider(CREDENTIALS)
            .build());
  }

  TopicAdminClient restTopics() throws Exception {
    return TopicAdminClient.create(
        TopicAdminSettings.newHttpJsonBuilder()
            .setTransportChannelProvider(rest())
            .setCredentialsProvider(CREDENTIALS)
            .build());
  }

  SubscriptionAdminClient restSubscriptions() throws Exception {
    return SubscriptionAdminClient.create(
        SubscriptionAdminSettings.newHttpJsonBuilder()
            .setTransportChannelProvider(rest())
            .setCredentialsProvider(CREDENTIALS)
            .build());
  }

  private TransportChannelProvider rest() throws Exception {
    InstantiatingHttpJsonChannelProvider.Builder builder =
        TopicAdminSettings.defaultHttpJsonTransportProviderBuilder();
    if (authority.isEmpty()) {
      return builder.setEndpoint("http://" + endpoint).build();
    }
    return builder.setEndpoint("https://" + endpoint).setHttpTransport(trusting()).build();
  }

  private NetHttpTransport trusting() throws Exception {
    var trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (var file = new FileInputStream(authority)) {
      var certificate = CertificateFactory.getInstance("X.509").generateCertificate(file);
      trusted.setCertificateEntry("authority", certificate);
    }
    return new NetHttpTransport.Builder().trustCertificates(trusted).build();
  }

  /** An access token that the key file's `token_uri` grants. */
  String exchange(String scope) throws Exception {
    var transport = trusting();
    try (var file = new FileInputStream(System.getenv("GOOGLE_APPLICATION_CREDENTIALS"))) {
      return ServiceAccountCredentials.fromStream(file, () -> transport)
          .createScoped(scope)
          .refreshAccessToken()
          .getTokenValue();
    }
  }

  /** The status of a GET with a token. */
  int get(String path, String token) throws Exception {
    var request =
        trusting()
            .createRequestFactory()
            .buildGetRequest(new GenericUrl("https://" + endpoint + path))
            .setThrowExceptionOnExecuteError(false);
    request.getHeaders().setAuthorization("Bearer " + token);
    var answer = request.execute();
    answer.disconnect();
    return answer.getStatusCode();
  }
}
