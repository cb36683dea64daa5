"""How the bounds relate: one that is meant to be met before another is smaller."""

from __future__ import annotations

from fanlog import limits


def test_what_is_refused_is_refused_by_the_bound_that_names_it():
    assert limits.PUBLISH_BYTES_MAX < limits.GRPC_RECEIVE_BYTES_MAX
    assert limits.GRPC_RECEIVE_BYTES_MAX < limits.CREDITED_BYTES_MAX < limits.UNFINISHED_BYTES_MAX
    assert limits.ANSWER_BYTES_MAX < limits.UNREAD_BYTES_MAX < limits.UNREAD_TOTAL_BYTES_MAX
    assert limits.HTTP_BYTES_MAX < limits.CREDITED_BYTES_MAX
    assert (
        limits.SCHEMA_DEFINITION_BYTES_MAX
        < limits.REQUEST_BYTES_MAX
        < limits.ACK_BYTES_MAX
        < limits.GRPC_RECEIVE_BYTES_MAX
    )
    assert limits.JOB_BYTES_MAX < limits.REQUEST_BYTES_MAX
    assert limits.SCHEDULE_BYTES_MAX < limits.REQUEST_BYTES_MAX
    assert limits.SCHEDULE_CATCH_UP_MAX <= limits.SCHEDULE_COUNT_MAX
    assert limits.FORWARD_HOPS_MAX < limits.LETTER_HOPS_MAX < 256
    assert limits.STAGE_ROWS_MAX >= limits.PUBLISH_MESSAGES_MAX
    assert limits.ACK_IDS_MAX <= limits.JSON_TEXTS_MAX
    assert (
        max(limits.EPOCH_STAGES_MAX, limits.LOG_READ_RANGES_MAX, limits.PUBLISH_MESSAGES_MAX)
        <= limits.JSON_OBJECTS_MAX
    )
    assert limits.PUBLISH_MESSAGES_MAX * limits.ATTRIBUTES_MAX * 2 < limits.JSON_WEIGHT_MAX
    assert limits.REOPEN_IDS_MAX * 20 <= limits.REQUEST_BYTES_MAX
    assert limits.HTTP_BYTES_MIN < limits.PUBLISH_BYTES_MAX * 4 // 3 < limits.HTTP_BYTES_MAX
    assert limits.STREAM_FIRST_ANSWER_BYTES_MAX <= limits.STREAM_ANSWER_BYTES_MAX
    assert limits.STREAM_ANSWER_BYTES_MAX <= limits.ANSWER_BYTES_MAX < 4 * 1024 * 1024
    assert (
        limits.RUNWAY_COMMIT_BYTES_MAX
        <= limits.RUNWAY_BYTES_MIN
        < limits.RUNWAY_BYTES
        < limits.RUNWAY_ROOM_BYTES_MIN
    )
    assert limits.BATCH_BYTES_MAX < limits.COMMIT_BYTES_MAX < limits.WRITER_BACKLOG_BYTES_MAX
    assert (
        limits.COMMIT_BYTES_MAX
        < limits.REPLICATED_COMMIT_BYTES_MAX
        < limits.KAFKA_RECORD_BYTES_MAX
        < limits.KAFKA_BATCH_BYTES_MAX
    )
    assert limits.KAFKA_IN_SYNC_MIN < limits.KAFKA_REPLICAS <= limits.KAFKA_REPLICAS_MAX
    assert (
        limits.RETENTION_S_MIN
        < limits.RETENTION_S_DEFAULT
        < limits.RETENTION_S_MAX
        < limits.LAKE_RETENTION_S_MAX
    )
    assert limits.ACK_DEADLINE_S_MIN <= limits.ACK_DEADLINE_S_DEFAULT <= limits.ACK_DEADLINE_S_MAX
    assert limits.TOPIC_RETENTION_S <= limits.RETENTION_S_DEFAULT
    assert (
        limits.STRETCH_BYTES_MIN
        <= limits.STRETCH_BYTES
        <= limits.SPARE_MEMORY_BYTES_MAX // limits.SPARE_PARTS
    )
    assert limits.SPARE_AHEAD_BYTES <= limits.SPARE_MEMORY_BYTES_MAX < limits.SPARE_BYTES_MAX
    assert limits.KEY_WAITING_MAX <= limits.WAITING_MAX
    assert limits.KEY_SLOTS_DEFAULT <= limits.KEY_SLOTS_MAX <= 2**8
    assert limits.EPOCH_PART_BYTES <= limits.EPOCH_WHOLE_BYTES_MAX <= limits.COMMIT_BYTES_MAX
    assert limits.BATCH_BYTES_MAX <= limits.STAGE_WRITE_BYTES
    assert limits.FILTER_GOOGLE_BYTES_MAX < limits.FILTER_BYTES_MAX
    assert (
        limits.SCHEMA_EXPLAIN_STEPS_MAX
        < limits.SCHEMA_INLINE_STEPS_MAX
        < limits.SCHEMA_MESSAGE_STEPS_MAX
    )
    assert limits.SCHEMA_PATTERN_BYTES_MAX <= limits.SCHEMA_PATTERNS_BYTES_MAX
    assert limits.SCHEMA_DEFAULT_BYTES_MAX < limits.PUBLISH_BYTES_MAX
    assert (
        limits.PUSH_WINDOW_FIRST <= limits.PUSH_WINDOW_MAX <= limits.PUSH_CONNECTIONS_PER_HOST_MAX
    )
    assert limits.PUSH_RETRY_AFTER_S_MAX <= limits.RETRY_BACKOFF_S_MAX
    assert limits.PUBLISH_BYTES_MAX < limits.PUSH_BYTES_MAX < limits.PUSH_BYTES_TOTAL_MAX // 2
    assert limits.PUSH_CALL_BYTES_MAX <= limits.PUSH_BYTES_MAX
    assert (
        limits.PUSH_ANSWER_CHARACTERS * 4
        <= limits.PUSH_ANSWER_KEPT_BYTES
        <= limits.PUSH_ANSWER_BYTES_MAX
    )
    assert limits.PUSH_ANSWER_CHARACTERS * 4 < limits.ATTRIBUTE_VALUE_BYTES_MAX
    assert limits.PUSH_TIMEOUT_S_MIN <= limits.PUSH_TIMEOUT_S_DEFAULT <= limits.PUSH_TIMEOUT_S_MAX
    assert (
        limits.FIRST_IMMEDIATE_BACKOFF_S_MIN
        < limits.FIRST_IMMEDIATE_BACKOFF_S_MAX
        <= limits.RETRY_BACKOFF_S_MAX
    )
