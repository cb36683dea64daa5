"""Kafka with TLS, SASL and rights: the user's file reaches it, and few rights suffice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from bench.kafka import Kafka
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from fanlog.errors import ConfigError
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.settings import read_settings
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated.partition import PartitionUnavailable, Produced, Uncertain
from kafka.changes import PATIENCE_S, admin
from kafka.conftest import running
from kafka.tokens import AUDIENCE, Issuer
from transport.certificates import Authority

Open = Callable[[KafkaOptions], KafkaPartition]

MANY = 1 << 30
USER, PASSWORD = "fanlog-node", "a=secret:of ours"
#: Of tokens, and of what a connection may do before it shows a new one.
TOKEN_S, CONNECTION_S = 6, 3
#: All that a node needs.
RIGHTS = (
    AclOperation.CREATE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
)


@dataclass(frozen=True, slots=True)
class Secured:
    kafka: Kafka
    issuer: Issuer
    ca: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A node with a listener for those who say who they are; the others may do everything."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority.make("kafka authority")
    certificate, key = authority.issue("kafka", folder)
    store = folder / "store.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    package = "org.apache.kafka.common.security"
    with Issuer(USER, TOKEN_S) as issuer:
        secure = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "scram-sha-512.sasl.jaas.config": f"{package}.scram.ScramLoginModule required;",
            "oauthbearer.sasl.jaas.config": (
                f"{package}.oauthbearer.OAuthBearerLoginModule required;"
            ),
            "oauthbearer.sasl.server.callback.handler.class": (
                f"{package}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
            "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            "oauthbearer.connections.max.reauth.ms": str(CONNECTION_S * 1000),
        }
        settings = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/keys"
        with running(settings=settings, secure=secure, java_options=[allowed]) as kafka:
            changing = admin(kafka)
            scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
            user = UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
            (asked,) = changing.alter_user_scram_credentials([user]).values()
            asked.result(PATIENCE_S)
            yield Secured(kafka, issuer, authority.write(folder / "ca.pem"))


def allow(kafka: Kafka, options: KafkaOptions, *rights: AclOperation) -> None:
    """Give the user these rights, on the topic of the cluster alone."""
    changing = admin(kafka)
    bindings = [
        AclBinding(
            *(ResourceType.TOPIC, options.topic, ResourcePatternType.LITERAL),
            *(f"User:{USER}", "*", right, AclPermissionType.ALLOW),
        )
        for right in rights
    ]
    for asked in changing.create_acls(bindings).values():
        asked.result(PATIENCE_S)


def told(secured: Secured, folder: Path, cluster: str, *lines: str) -> KafkaOptions:
    """Options with a file of settings, as a user writes one."""
    path = folder / "kafka.properties"
    lines = (f"security.protocol=SASL_SSL\nssl.ca.location={secured.ca}", *lines)
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return KafkaOptions(
        servers=secured.kafka.secure_servers,
        cluster=cluster,
        settings=read_settings(path),
        replicas=1,
        delivery_s=3,
    )


def with_password(
    secured: Secured, folder: Path, cluster: str, password: str = PASSWORD
) -> KafkaOptions:
    return told(
        secured,
        folder,
        cluster,
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.username={USER}",
        f"sasl.password={password}",
    )


def use(partition: KafkaPartition) -> None:
    """Do everything that a log does."""
    end = partition.bounds(wait_s=PATIENCE_S).end
    assert partition.produce(b"a").offset == end
    partition.reset_producer()
    assert partition.produce(b"b").offset == end + 1
    (first, *_) = partition.fetch(end, max_bytes=MANY, wait_s=PATIENCE_S)
    assert first.value == b"a"
    partition.delete_before(end + 1)
    assert partition.bounds(wait_s=PATIENCE_S) == (end + 1, end + 2)


def test_a_password_and_rights_on_the_topic_suffice(
    secured: Secured, tmp_path: Path, cluster: str, opened: Open
):
    """No right on the Kafka cluster, nor on any group."""
    options = with_password(secured, tmp_path, cluster)
    allow(secured.kafka, options, *RIGHTS)
    use(opened(options))
    # One more has a topic that is there flushed.
    flushed = replace(options, is_flushed=True)
    with pytest.raises(ConfigError, match=r"cannot be set to 1: .*authorization failed"):
        prepare_topic(flushed, wait_s=PATIENCE_S)
    allow(secured.kafka, options, AclOperation.ALTER_CONFIGS)
    assert prepare_topic(flushed, wait_s=PATIENCE_S).is_flushed
    use(opened(flushed))


@pytest.mark.timeout(120)
def test_tokens_are_fetched_and_renewed(
    secured: Secured, tmp_path: Path, cluster: str, opened: Open
):
    """By clients that wait, too: the warm producer's last token is over when its turn comes."""
    options = told(
        secured,
        tmp_path,
        cluster,
        "sasl.mechanism=OAUTHBEARER",
        "sasl.oauthbearer.method=oidc",
        "sasl.oauthbearer.client.id=us",
        "sasl.oauthbearer.client.secret=secret",
        f"sasl.oauthbearer.token.endpoint.url={secured.issuer.url}/token",
    )
    allow(secured.kafka, options, *RIGHTS)
    partition = opened(options)
    use(partition)
    begun = secured.issuer.given
    end_s = time.monotonic() + 60
    # Four clients; each has had two more tokens by then.
    while secured.issuer.given < begun + 8:
        assert isinstance(partition.produce(b"c"), Produced)
        assert time.monotonic() < end_s
        time.sleep(0.05)
    use(partition)


@pytest.mark.parametrize("missing", RIGHTS)
def test_a_right_that_is_missing_is_an_error(
    secured: Secured, tmp_path: Path, cluster: str, missing: AclOperation
):
    options = with_password(secured, tmp_path, cluster)
    allow(secured.kafka, options, *(right for right in RIGHTS if right is not missing))
    if missing is AclOperation.CREATE:
        with pytest.raises(ConfigError, match=r"cannot be made: .*[Aa]uthorization failed"):
            prepare_topic(options, wait_s=PATIENCE_S)
        return
    as_anyone = replace(options, servers=secured.kafka.servers, settings={})
    topic_id = prepare_topic(as_anyone, wait_s=PATIENCE_S).topic_id
    if missing is AclOperation.DESCRIBE_CONFIGS:
        with pytest.raises(
            ConfigError, match=r"authorization failed.*a node needs CREATE, DESCRIBE_CONF"
        ):
            prepare_topic(options, wait_s=PATIENCE_S)
        return
    with closing(KafkaPartition(options, topic_id)) as partition:
        outcome = partition.produce(b"a")
        if missing is AclOperation.WRITE:
            assert isinstance(outcome, Uncertain)
            assert "authorization failed" in outcome.reason
            return
        assert outcome.offset == 0
        denied: Callable[[], object] = (
            partial(partition.fetch, 0, max_bytes=MANY, wait_s=PATIENCE_S)
            if missing is AclOperation.READ
            else partial(partition.delete_before, 1)
        )
        with pytest.raises(PartitionUnavailable, match="authorization failed"):
            denied()


def test_a_wrong_password_is_told(secured: Secured, tmp_path: Path, cluster: str):
    options = with_password(secured, tmp_path, cluster, "wrong")
    with pytest.raises(PartitionUnavailable, match="SASL authentication error"):
        prepare_topic(options, wait_s=2)


def test_a_certificate_of_another_authority_is_told(secured: Secured, tmp_path: Path, cluster: str):
    other = replace(secured, ca=Authority.make("another").write(tmp_path / "another.pem"))
    options = with_password(other, tmp_path, cluster)
    with pytest.raises(PartitionUnavailable, match="certificate verify failed"):
        prepare_topic(options, wait_s=2)
