"""Every bound and default, with its reason. `tests/unit/test_limits.py` asserts how they relate.

Numbers marked (Google) are those of the Pub/Sub API, so that a program that fits there fits here.
"""

from __future__ import annotations

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 86400.0

# Names (Google).
NAME_LENGTH_MIN = 3
NAME_LENGTH_MAX = 255
#: Ours: Google's projects are shorter, but emulator users invent theirs.
PROJECT_LENGTH_MAX = 255

# Topic patterns: no longer than the names they stand for; `#` alone is one.
PATTERN_LENGTH_MAX = NAME_LENGTH_MAX
#: Topics whose matching patterns are remembered until a pattern comes or goes: some 20 MiB.
PATTERN_CACHE_TOPICS_MAX = 65_536
#: Ids remembered for all these topics together, 8 bytes each; only one longer answer may pass it.
PATTERN_CACHE_IDS_MAX = 4_000_000

# Publish (Google).
PUBLISH_MESSAGES_MAX = 1_000
PUBLISH_BYTES_MAX = 10_000_000
#: Of one message, unless `message_bytes_max` says less: as much as a request may have.
MESSAGE_BYTES_MAX = PUBLISH_BYTES_MAX
ATTRIBUTES_MAX = 100
ATTRIBUTE_KEY_BYTES_MAX = 256
ATTRIBUTE_VALUE_BYTES_MAX = 1_024
ORDERING_KEY_BYTES_MAX = 1_024

# Terms of messages.
#: Later than this no subscription has the message any more (RETENTION_S_MAX).
DELAY_S_MAX = 31 * DAY_S
#: A longer one says nothing: no subscription keeps a message for so long.
MESSAGE_TTL_S_MAX = 31 * DAY_S
#: Clocks differ, and a publish is repeated when its answer is lost.
DELIVER_AT_PAST_S_MAX = 60.0
#: Messages of a server that wait for the time they are to be delivered at: some 60 bytes each.
PENDING_MAX = 2_000_000
#: Those that are let go in one turn of the loop, about 10 ms; and how long the next ones wait, so
#: that many subscriptions are told of many messages at once.
DUE_MESSAGES_MAX = 10_000
DUE_PAUSE_S = 0.005
#: Message ids in `fanlog-depends-on`.
DEPENDENCIES_MAX = 16
#: Seconds that a message waits for those that it depends on.
DEPENDENCY_TIMEOUT_S_DEFAULT = 300
DEPENDENCY_TIMEOUT_S_MAX = 31 * 86_400
#: Messages of a share that do so at a time, some 300 bytes each; more stay in the backlog.
DEPENDING_MAX = 10_000
#: Messages that a tenant gets before the next one has its turn.
TENANT_TURN_MESSAGES = 8
#: Messages of one answer where tenants are served in turn: each may be in a batch of its own.
TENANT_ANSWER_MESSAGES_MAX = 256
#: Tenants of a partition that have turns of their own, some 100 bytes each and 2 a message; more
#: share the turns of so many.
TENANTS_MAX = 1_000
TENANTS_SHARED = 64
#: Bytes of UTF-8 that the name of a tenant may have.
TENANT_BYTES_MAX = 256
#: One part in so many of what is delivered goes to the oldest message, whatever its priority.
PRIORITY_FLOOR_PART = 8

# Describing resources: names in a request.
DESCRIBED_MAX = 1_000

# Labels (Google): keys and values of 63 characters, 64 labels.
LABELS_MAX = 64
LABEL_LENGTH_MAX = 63

# Regions that a topic's messages may be in. Google has about forty.
STORAGE_REGIONS_MAX = 100

# IAM policies (Google): members and groups each time they are named, and permissions asked for.
#: Service accounts of a server, and keys and tokens of one: enough to rotate them.
ACCOUNTS_MAX = 10_000
ACCOUNT_KEYS_MAX = 10
ACCOUNT_TOKENS_MAX = 20
IAM_MEMBERS_MAX = 1_500
IAM_GROUPS_MAX = 250
IAM_PERMISSIONS_MAX = 100
IAM_POLICY_BYTES_MAX = 64 * 1024
#: Ours: there are fewer roles than this, and a role may be bound in parts.
IAM_BINDINGS_MAX = 100

# Leases (Google).
ACK_DEADLINE_S_MIN = 10
ACK_DEADLINE_S_MAX = 600
ACK_DEADLINE_S_DEFAULT = 10

# Retention (Google).
RETENTION_S_MIN = 10 * MINUTE_S
RETENTION_S_MAX = 31 * DAY_S
RETENTION_S_DEFAULT = 7 * DAY_S
#: Of topics without one: a message from before the first subscription is there a week later.
TOPIC_RETENTION_S = 7 * DAY_S
#: Messages that only that keeps have at most so many bytes, or so much of the disk, whichever is
#: less; in memory much less.
SPARE_BYTES_MAX = 10 * 1024 * 1024 * 1024
SPARE_DISK_PART = 10
SPARE_MEMORY_BYTES_MAX = 64 * 1024 * 1024
#: The bound is kept to such a part of it: some go when there is so little left, and twice as much.
SPARE_PARTS = 32
#: Let go of at least, beyond the room that a publish lacks: the next ones need not wait for it.
SPARE_AHEAD_BYTES = 16 * 1024 * 1024
#: Sizes are remembered for stretches of about so many bytes, and less where the bound is small.
STRETCH_BYTES = 1024 * 1024
STRETCH_BYTES_MIN = 1024
#: Batches whose sizes are looked at in one go, 10 ms or so in a thread, and how often in a sweep.
WEIGHED_BATCHES_MAX = 10_000
SWEEP_WEIGHED_MAX = 500
#: Of a topic that is archived to a lake (ours): a hundred years.
LAKE_RETENTION_S_MAX = 36_500 * DAY_S
#: How long archived messages stay in the hot log as well.
HOT_RETENTION_S = 1 * DAY_S
EXPIRATION_TTL_S_MIN = DAY_S
EXPIRATION_TTL_S_DEFAULT = 31 * DAY_S
SNAPSHOT_LIFE_S = 7 * DAY_S
#: A snapshot that would live shorter than this is refused (Google).
SNAPSHOT_LIFE_S_MIN = HOUR_S

# Retry and dead letters. Google allows 5 to 100 attempts; its users ask for fewer.
RETRY_BACKOFF_S_MAX = 600.0
RETRY_MINIMUM_BACKOFF_S_DEFAULT = 10.0
RETRY_MAXIMUM_BACKOFF_S_DEFAULT = 600.0
#: The second and later waits of `fanlog-retry: first-immediate`, doubling; the first is none.
FIRST_IMMEDIATE_BACKOFF_S_MIN = 1.0
FIRST_IMMEDIATE_BACKOFF_S_MAX = 600.0
DELIVERY_ATTEMPTS_MIN = 1
DELIVERY_ATTEMPTS_MAX = 100
DELIVERY_ATTEMPTS_DEFAULT = 5
#: How long a consumer may put off a message that it nacks: twelve hours; and the reason it gives.
NACK_DELAY_S_MAX = 43_200
NACK_REASON_BYTES_MAX = 512
#: How long a message that a stream nacked is for other consumers only: a client that ends nacks
#: its messages, and closes its streams a moment later.
AVERSION_S = 0.25
#: How long a message that cannot be forwarded or dead-lettered now waits for the next try.
DEAD_LETTER_RETRY_S = 10.0

# Replay.
#: How long the id of a request that was done is known, and how many of one subscription.
REQUEST_ID_S = 7 * DAY_S
REQUEST_IDS_MAX = 10_000
REQUEST_ID_BYTES_MAX = 256
#: Message ids in one request to reopen; a window or a bitmap says more with less.
REOPEN_IDS_MAX = 50_000
#: Sets of offsets in a request to reopen: ten for each of a thousand topics.
REOPEN_SETS_MAX = 10_000
#: Ids in a position: one for each topic that a pattern may read.
POSITION_IDS_MAX = 20_000
#: Dead letters redriven or discarded in one request at most, and if it does not say how many.
LETTERS_MAX = 10_000
LETTERS_DEFAULT = 1_000
#: Dead letters of one commit, and about how many bytes are read for them.
LETTERS_STEP_MAX = 1_000
LETTERS_STEP_BYTES_MAX = 4 * 1024 * 1024
#: Messages looked at in one request for those that it wants.
LETTERS_SEEN_MAX = 100_000
#: Of letters that are skipped, so many are named.
LETTERS_SHOWN_MAX = 1_000

# Inspection.
#: Messages in one answer to a peek at most, and if it does not say how many.
PEEK_MESSAGES_MAX = 1_000
PEEK_MESSAGES_DEFAULT = 10
#: Messages that a filter judges for one answer: a short page goes on with its token.
PEEK_JUDGED_MAX = 100_000
#: Batches of pending messages that are read to know which ordering keys they hold up.
PEEK_PENDING_BATCHES_MAX = 1_000
#: A backlog of so many messages is weighed message by message, unless more than so many bytes had
#: to be read for it.
BACKLOG_WEIGHED_MAX = 1_000
BACKLOG_WEIGHED_BYTES_MAX = 4 * 1024 * 1024
#: Topics of a pattern in one backlog, and subscriptions in one trace.
BACKLOG_TOPICS_MAX = 1_000
TRACE_SUBSCRIPTIONS_MAX = 1_000
#: Events of messages that are remembered, and the messages in them, about 16 bytes each; the
#: oldest are forgotten first.
TRACE_EVENTS_MAX = 20_000
TRACE_MESSAGES_MAX = 1_000_000
#: Events in the trace of one message on one subscription: the last of them.
TRACE_SHOWN_MAX = 100
#: Of so many messages one has its deliveries and acknowledgements remembered; 0 for none, which
#: costs nothing.
TRACE_SAMPLE_DEFAULT = 0
TRACE_SAMPLE_MAX = 1_000_000
#: Topics, and subscriptions, that have metrics of their own: 50,000 series for Prometheus, and two
#: megabytes a scrape. Of more there may be as many as `metrics_resources_max` says.
METRICS_RESOURCES_DEFAULT = 1_000
#: How often metrics are sent by OTLP; OpenTelemetry's own default, and the least that is taken.
OTLP_INTERVAL_S = 60.0
OTLP_INTERVAL_S_MIN = 1.0
#: Messages of a dead letter topic looked at for the letter of one message, when that is forgotten.
TRACE_LETTERS_SEEN_MAX = 10_000

# Browsing.
#: Messages in one page at most, and if the request does not say how many.
BROWSE_MESSAGES_MAX = 1_000
BROWSE_MESSAGES_DEFAULT = 50
#: A page looks at so many messages, or so many bytes of the log, whichever comes first: about a
#: tenth of a second of work. A page that found nothing by then goes on with its token.
BROWSE_LOOKED_MAX = 20_000
BROWSE_LOOKED_BYTES_MAX = 16 * 1024 * 1024
#: Bytes of the data of each message that a page shows, if the request does not say how many.
BROWSE_DATA_BYTES_DEFAULT = 16 * 1024
#: Longer data is not decoded for a page, nor is longer JSON shown: both are for people to read.
BROWSE_DECODED_BYTES_MAX = 256 * 1024
#: Latest messages of each topic that a filter is tried on: at most, and if nothing is said.
TRY_MESSAGES_MAX = 100_000
TRY_MESSAGES_DEFAULT = 1_000
#: So many bytes of the log are read for it, some tenths of a second; then it is cut short.
TRY_BYTES_MAX = 64 * 1024 * 1024
#: Samples of each kind at most, if nothing is said, and bytes of their data.
TRY_SAMPLES_MAX = 100
TRY_SAMPLES_DEFAULT = 5
TRY_DATA_BYTES = 1_024

# Live numbers.
#: Between two samples; all watchers get the same ones.
LIVE_S = 1.0
#: Watchers of one server. Each costs a part of a millisecond a second.
LIVE_WATCHERS_MAX = 200
#: Topics and subscriptions that one watcher names, as many as a page of a table shows at a time,
#: and all watchers together: some 10 microseconds of each sample for each.
LIVE_NAMED_MAX = 100
LIVE_NAMED_TOTAL_MAX = 2_000
#: Problems that a sample has; ListProblems has all of them.
LIVE_PROBLEMS_MAX = 20
#: A watcher that has room for no sample for so long is cut off.
LIVE_UNREAD_S = 10.0
#: Subscriptions looked at for each sample: some milliseconds. Of more, each has its turn.
SURVEY_STEP = 250
#: Their oldest messages whose times are read for each sample, each from one stored batch.
SURVEY_READS_MAX = 25
#: The same where all subscriptions are looked at for somebody who waits: half a second, in steps.
SURVEY_WHOLE_READS_MAX = 10_000
#: Rates of tables are of about so long, and are known while they were asked for within a minute.
RATE_WINDOW_S = 10.0
RATES_KEPT_S = 60.0
#: Rows of one page of a table, at most and if the request does not say.
ROWS_MAX = 200
ROWS_DEFAULT = 50
#: A table that is ordered by a number is looked at whole, and again after so long.
ROWS_LOOKED_AT_S = 5.0
#: Projects that a server names.
PROJECTS_SHOWN_MAX = 100

# Pipelines.
#: Pipelines that a server knows.
PIPELINES_MAX = 100
#: How often one says that it is there; it is missed after the second, and shown for the third.
PIPELINE_REPORT_S = 5.0
PIPELINE_MISSED_S = 20.0
PIPELINE_KEPT_S = 10 * MINUTE_S
#: Flows of one, and characters of the reason why one failed.
PIPELINE_FLOWS_MAX = 50
PIPELINE_ERROR_LENGTH_MAX = 2_000

# The lake's tables, for whoever looks.
#: They are looked at again after so long.
LAKE_TABLES_LOOKED_AT_S = 10.0
#: Places in damaged files that are named, and files of a table that are.
DAMAGE_SHOWN_MAX = 100
LAKE_FILES_SHOWN_MAX = 5

# Problems.
PROBLEMS_SHOWN_MAX = 1_000
#: A subscription stalls when messages wait and it has not acknowledged for so long.
STALLED_S = 10 * MINUTE_S
#: Nobody takes messages that wait for so long.
UNATTENDED_S = 10 * MINUTE_S
#: Messages that leave unacknowledged this soon: a backlog that its retention is about to end.
ENDING_S = DAY_S
ENDING_PART = 10
#: Dead letters that arrived within the last so many seconds.
LETTERS_LATELY_S = 15 * MINUTE_S
#: A job waits for a worker for so long; one that failed is a problem for so long.
JOB_WAITS_S = 2 * MINUTE_S
JOB_FAILED_S = DAY_S
#: The disk is low when there is no more room than so many times the reserve.
ROOM_LOW_RESERVES = 4

# Delivery of a subscription, as it is shown.
CONSUMERS_SHOWN_MAX = 1_000
#: Failures of an endpoint that are remembered, some 500 bytes each.
PUSH_FAILURES_KEPT = 20
#: Resources, and permissions, in one question about access: a page of a table, and all there are.
ACCESS_RESOURCES_MAX = 200
ACCESS_PERMISSIONS_MAX = 200
#: Groups of dead letters in one answer, and that are told apart for it, a kilobyte each at most.
LETTER_GROUPS_MAX = 200
LETTER_GROUPS_COUNTED_MAX = 2_000

# Sessions of browsers.
#: Sessions of one server, some kilobytes each; the one used longest ago makes room.
SESSIONS_MAX = 1_000
#: A session ends when it was not used for so long.
SESSION_IDLE_S = 12 * HOUR_S
#: Body of a request to sign in: a token, and its quotes.
SESSION_BYTES_MAX = 32 * 1024

# Pull.
#: Most messages in one unary answer (Google).
PULL_MESSAGES_MAX = 1_000
#: Official clients in emulator mode keep gRPC's 4 MiB default: a larger answer would loop.
ANSWER_BYTES_MAX = 3_500 * 1024
#: One streamed answer: large enough to pay per batch, small enough to be smooth.
STREAM_ANSWER_BYTES_MAX = 1024 * 1024
STREAM_ANSWER_MESSAGES_MAX = 1_000
#: The same, for a stream that has not given back a single message yet: it may never read, and its
#: answers wait in memory.
STREAM_FIRST_ANSWER_BYTES_MAX = 64 * 1024
#: A long poll without a caller's deadline answers empty after this.
PULL_WAIT_S = 30.0
#: How much before the caller's deadline an empty answer is sent; half of the time left, if less.
PULL_MARGIN_S = 1.0
#: Most ack ids in one request: beyond this the request is larger than any client sends.
ACK_IDS_MAX = 100_000

# Routing.
#: The latest judgements of filters are kept for other feeds: about so many answers.
ROUTES_COST_MAX = 1_000_000
#: Read at a time for filters to judge.
ROUTE_READ_BYTES_MAX = 1024 * 1024
#: Earlier filters of one subscription that unacknowledged messages may still be judged by.
FILTER_CHANGES_MAX = 100
#: Stretches of the log judged in one sweep, for subscriptions without a reader.
SWEEP_ROUTED_MAX = 10_000

# Dedup.
#: How long a dedup id is known; a topic may say otherwise, up to a day.
DEDUP_WINDOW_S_DEFAULT = 600.0
DEDUP_WINDOW_S_MAX = 86_400
#: Dedup ids known of one topic; beyond that the oldest are forgotten before their time.
DEDUP_IDS_MAX = 1_000_000
#: Dedup ids of one topic forgotten in one sweep.
SWEEP_DEDUP_MAX = 20_000

# Publishers that number their messages.
#: Numbers and epochs: what a signed number of 64 bits holds.
SEQUENCE_MAX = 2**63 - 1
#: How long messages behind a gap are held back; a topic may say otherwise, up to an hour.
GAP_TIMEOUT_S_DEFAULT = 30
GAP_TIMEOUT_S_MAX = 3_600
#: How long a publisher that is silent is remembered; a topic may say otherwise: from the time that
#: an official client goes on repeating a publish, up to the longest retention.
PUBLISHER_LIFE_S_DEFAULT = 604_800
PUBLISHER_LIFE_S_MIN = 600
PUBLISHER_LIFE_S_MAX = 2_678_400
#: Publishers that one topic remembers; one more is refused until others are forgotten.
PUBLISHERS_MAX = 10_000
#: Numbers of one publisher, and of a whole topic, whose messages are known; older ones are refused.
PUBLISHER_NUMBERS_MAX = 1_000
TOPIC_NUMBERS_MAX = 200_000
#: Messages of one publisher held back behind gaps: then it is told to fill the gap first.
PUBLISHER_HELD_MAX = 1_000
#: Messages of one topic that a gap has moved behind later ones, and that the log still has.
MOVED_MAX = 1_000_000
#: The same in one answer about several topics: some 40 MiB.
PLACES_MAX = 4_000_000
#: Publishers of one topic forgotten in one sweep.
SWEEP_PUBLISHERS_MAX = 2_000

# Lists.
PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 1_000

# The log.
#: Offsets of one partition stay below this: twelve digits, as message ids write them.
OFFSET_MAX = 10**12
#: Values above this are cut at message boundaries, so that freed LMDB pages are found again.
BATCH_BYTES_MAX = 256 * 1024
#: A group commit stops gathering here: bounds memory and the time one sync takes.
COMMIT_BYTES_MAX = 16 * 1024 * 1024
#: One commit of a replicated log, its state included: what the partition takes (32 MiB), less what
#: Kafka puts around a record.
REPLICATED_COMMIT_BYTES_MAX = 32 * 1024 * 1024 - 64 * 1024
#: Zeros written at a time behind the last page of the data file: some milliseconds, once for a
#: thousand single messages.
RUNWAY_BYTES = 2 * 1024 * 1024
#: Zeros are written when fewer than this are left.
RUNWAY_BYTES_MIN = 256 * 1024
#: No zeros where commits have more bytes than this in the mean: they would double what is written.
RUNWAY_COMMIT_BYTES_MAX = 64 * 1024
#: Nor on a disk with less room than this.
RUNWAY_ROOM_BYTES_MIN = 1024 * 1024 * 1024
#: Publish bytes that may wait for the writer before publishers are pushed back.
WRITER_BACKLOG_BYTES_MAX = 128 * 1024 * 1024
#: A commit that takes so long says that the disk is as far behind as it can be.
SHED_COMMIT_S = 5.0
#: When a publish that was shed may be tried again, at the earliest.
SHED_RETRY_S_MIN = 0.5
#: Messages, or bytes, a second that the rate of a topic may be; and that it may take at once.
PUBLISH_RATE_MAX = 1_000_000_000_000
#: Messages, or bytes, that a subscription's window may be set to.
MAX_OUTSTANDING_MAX = 1_000_000_000_000
#: Messages of the window in the short form; elsewhere there is none.
MAX_OUTSTANDING_MESSAGES_SHORT = 1_000
#: How many seconds' worth a topic takes at once, where its burst is not set.
PUBLISH_BURST_S_DEFAULT = 2
#: Offsets in one cursor chunk: one roaring container.
CURSOR_CHUNK_OFFSETS = 65_536
#: Offsets in one chunk of attempt counts.
ATTEMPTS_CHUNK_OFFSETS = 1_024
#: Publishing stops when the disk has less than this left; acks and deletes may use it.
DISK_RESERVE_BYTES = 256 * 1024 * 1024
#: A larger file is not verified page by page when it is opened: a gigabyte takes 0.3 s, or 4 s when
#: its batches are small.
VERIFY_BYTES_MAX = 4 * 1024 * 1024 * 1024
#: Bytes read from the log for one answer at most, and the size of the shared read cache.
READ_BYTES_MAX = 8 * 1024 * 1024
READ_CACHE_BYTES_MAX = 16 * 1024 * 1024

# The log on Kafka.
#: `max.message.bytes` of the topic, and what a record may have without what Kafka adds to it.
KAFKA_BATCH_BYTES_MAX = 32 * 1024 * 1024
KAFKA_RECORD_BYTES_MAX = KAFKA_BATCH_BYTES_MAX - 4 * 1024
#: The topic is deleted from its begin in files of this size.
KAFKA_SEGMENT_BYTES = 256 * 1024 * 1024
#: How long a record is tried before its outcome counts as unknown: longer than Kafka takes to
#: replace a node (14 s by its defaults).
KAFKA_DELIVERY_S = 20.0
#: How long a question to Kafka may take at most where the caller does not say.
KAFKA_ASK_S = 5.0
#: Kafka nodes that have the topic: any two may be asked to have a record before it counts.
KAFKA_REPLICAS = 3
KAFKA_REPLICAS_MAX = 9
KAFKA_IN_SYNC_MIN = 2
#: How often the topic's settings are looked at while a node runs, and after a look that failed.
KAFKA_CHECK_S = HOUR_S
KAFKA_CHECK_AGAIN_S = MINUTE_S

# Reading the log itself.
#: Stored bytes in one answer: other calls wait for it, a fraction of a millisecond.
LOG_READ_BYTES_MAX = 256 * 1024
#: Between two answers of one read, for so long after a commit: a reader has 100 MiB a second left.
LOG_READ_PAUSE_S = 0.002
LOG_READ_LIVE_S = 0.05
#: Ranges in one request to read, and names in one selection of topics.
LOG_READ_RANGES_MAX = 10_000
LOG_TOPICS_MAX = 10_000
#: Batches of the index looked at for one answer: some 200 ms of work, in small steps.
LOG_RANGES_BATCHES_MAX = 50_000

# Sinks.
#: How long rows wait to be committed before they are forgotten.
STAGE_LIFE_S = HOUR_S
#: Bytes that may be staged at once: in files, and where the log is in memory.
STAGED_BYTES_MAX = 16 * 1024 * 1024 * 1024
STAGED_MEMORY_BYTES_MAX = 256 * 1024 * 1024
#: Rows for one topic, and such runs of rows, in one request: as many are looked at in one go.
STAGE_ROWS_MAX = 10_000
STAGE_RUNS_MAX = 1_000
#: Stages in one epoch, and the length of names of queries and attempts.
EPOCH_STAGES_MAX = 10_000
QUERY_BYTES_MAX = 1_024
EPOCH_MAX = 2**62
#: Refused rows that one answer lists; a task with more of them is refused whole.
STAGE_REFUSED_MAX = 10_000
#: Written to the spool at a time.
STAGE_WRITE_BYTES = 1024 * 1024
#: An epoch of more bytes is published in parts: of this size, for other commits wait for a part.
EPOCH_WHOLE_BYTES_MAX = COMMIT_BYTES_MAX
EPOCH_PART_BYTES = 2 * 1024 * 1024
#: How long a query is known that commits nothing.
QUERY_LIFE_S = 31 * DAY_S

# Exports.
#: How long the messages of a file may wait for it to be written (Google's bounds).
EXPORT_FILE_S_MIN = 60.0
EXPORT_FILE_S_MAX = 600.0
EXPORT_FILE_S_DEFAULT = 300.0
#: Bytes and messages after which a new file is begun (Google's bounds).
EXPORT_FILE_BYTES_MIN = 1_000
EXPORT_FILE_BYTES_MAX = 10 * 1024 * 1024 * 1024
EXPORT_FILE_MESSAGES_MIN = 1_000
#: Text of a name that an export asks for, in bytes.
EXPORT_NAME_BYTES_MAX = 1_024
#: Messages, and bytes as far as they are known, that are exported in one step.
EXPORT_BATCH_MESSAGES_MAX = 200_000
EXPORT_BATCH_BYTES_MAX = 256 * 1024 * 1024
#: Topics of which one step takes messages.
EXPORT_BATCH_PARTITIONS_MAX = 1_000
#: Columns that a schema is written out to, nested ones too; the rest is text.
EXPORT_COLUMNS_MAX = 10_000

# Ordering.
#: Offsets a blocked key remembers; beyond this its slots are scanned again when it is free.
KEY_WAITING_MAX = 1_024
#: Offsets all blocked keys of a share remember together.
WAITING_MAX = 65_536

# Key slots.
KEY_SLOTS_DEFAULT = 64
#: One byte says the slot of a message; and more consumers than that should have partitions.
KEY_SLOTS_MAX = 256
#: Batches of a share whose messages' slots are remembered, one byte each.
KEY_SLOT_BATCHES_MAX = 256

# Filters, in bytes of UTF-8. The first is Google's, for filters in Google's language.
FILTER_GOOGLE_BYTES_MAX = 256
#: Of any other filter, in UTF-8.
FILTER_BYTES_MAX = 4 * 1024
#: Tests of a field in one filter; all values of an IN are one test.
FILTER_PREDICATES_MAX = 100
#: Levels of AND, OR and NOT over each other, and of parentheses: every reader of the tree recurses.
FILTER_NESTING_MAX = 32

# Schemas (Google): bytes of a definition, revisions of one schema.
SCHEMA_DEFINITION_BYTES_MAX = 300_000
#: Of a revision: fewer digits than an id has.
SCHEMA_REVISION_NUMBER_MAX = 9_999_999
SCHEMA_REVISIONS_MAX = 20
#: Breaking changes that a refusal lists; the rest is counted.
SCHEMA_BREAKS_SHOWN_MAX = 20
#: JSON levels of a definition: everything that reads one recurses.
SCHEMA_NESTING_MAX = 250
#: Steps (visits of a type or a value) to compile a definition: some, and so many for each byte. An
#: honest definition takes less than one a byte; a step is a microsecond or two.
SCHEMA_COMPILE_STEPS = 10_000
SCHEMA_COMPILE_STEPS_PER_BYTE = 2
#: Steps to compare a revision with all earlier ones that it must go together with: a second or two.
SCHEMA_COMPARE_STEPS_MAX = 1_000_000
#: Steps to check one message: some, and so many for each byte. An honest message has one value in
#: two bytes at most; values without any bytes (Avro's null) are paid from the first number alone.
SCHEMA_CHECK_STEPS = 10_000
SCHEMA_CHECK_STEPS_PER_BYTE = 4
#: Steps of a JSON Schema: 15 ns each, while the library holds the interpreter. The most that a
#: message takes inside the server, and the most it takes at all: between the two it is checked in
#: a process of its own. And the most for which its mistake is looked for: 13 us each.
SCHEMA_INLINE_STEPS_MAX = 1_000_000
SCHEMA_MESSAGE_STEPS_MAX = 50_000_000
SCHEMA_EXPLAIN_STEPS_MAX = 5_000
#: Longer messages are checked in a thread, with schemas of any type: 64 KiB take 40 ms at worst.
SCHEMA_SHORT_BYTES = 64 * 1024
#: For each question to that process: processor time, memory, and how long it is waited for. Beyond
#: so much memory it is replaced once it has answered, and it ends when nothing is asked.
SCHEMA_PROCESS_S = 3.0
SCHEMA_PROCESS_BYTES_MAX = 1024 * 1024 * 1024
SCHEMA_PROCESS_WAIT_S = 60.0
SCHEMA_PROCESS_KIB_MAX = 256 * 1024
SCHEMA_PROCESS_IDLE_S = 60.0
#: Compiled definitions kept for the next message, in bytes as they are estimated; as much again for
#: transformations between them.
SCHEMA_CACHE_BYTES_MAX = 128 * 1024 * 1024
#: Compiled patterns of a JSON Schema: one of them, and all together. `^.{1,255}$` has 0.5 MiB.
SCHEMA_PATTERN_BYTES_MAX = 4 * 1024 * 1024
SCHEMA_PATTERNS_BYTES_MAX = 8 * 1024 * 1024
#: Memory that a pattern may take while it matches, besides; with less it is slower.
SCHEMA_PATTERN_CACHE_BYTES = 256 * 1024
#: Steps to transform one message into another revision's: each may make an object of 200 bytes.
SCHEMA_TRANSFORM_STEPS_MAX = 1_000_000
#: Values and bytes of a field's default, with the defaults that stand in it written out.
SCHEMA_DEFAULT_VALUES_MAX = 10_000
SCHEMA_DEFAULT_BYTES_MAX = 1024 * 1024

# Forwarding from topic to topic, and dead letters.
#: Forwards that a message and its copies may come through.
FORWARD_HOPS_MAX = 16
#: And dead letters: more, so that a message that no forward takes any more still becomes one.
LETTER_HOPS_MAX = 32
#: Copies that forwards may make of one message where they branch; the first branch is free, and so
#: are ways that do not branch.
FORWARD_COPIES_MAX = 1_024
#: Patterns tried in the search for a loop.
LOOP_PATTERNS_MAX = 100_000

# Push.
#: Requests of one subscription under way: at first, and at most.
PUSH_WINDOW_FIRST = 4
PUSH_WINDOW_MAX = 256
#: Message bytes of one subscription under way; a larger message goes alone.
PUSH_BYTES_MAX = 16 * 1024 * 1024
#: Message bytes of all subscriptions under way: slow endpoints together hold no more in memory.
PUSH_BYTES_TOTAL_MAX = 256 * 1024 * 1024
#: Messages and their bytes in one gRPC call: with ack ids and framing it stays below 4 MiB, which
#: gRPC servers take unless told otherwise. A larger message goes alone.
PUSH_CALL_MESSAGES_MAX = 500
PUSH_CALL_BYTES_MAX = 3 * 1024 * 1024
#: An answer to one: a refusal of each message, with its reason.
PUSH_CALL_ANSWER_BYTES_MAX = 4 * 1024 * 1024
#: gRPC channels kept for the next call; each idles without a connection after a while.
PUSH_CHANNELS_MAX = 1_000
#: Connections to one host and port, and to all together.
PUSH_CONNECTIONS_PER_HOST_MAX = 512
PUSH_CONNECTIONS_MAX = 8_192
#: Failures without a success between them after which an endpoint is left alone, and for how long.
PUSH_BREAKER_FAILURES = 5
PUSH_BREAKER_OPEN_S_MIN = 1.0
PUSH_BREAKER_OPEN_S_MAX = 30.0
#: Both may be set otherwise, up to these.
PUSH_BREAKER_FAILURES_MAX = 1_000
PUSH_BREAKER_WAIT_S_MAX = 3_600
#: Messages a second that a push endpoint may be set to get at most.
PUSH_RATE_MAX = 1_000_000
#: Longest that a Retry-After may ask for: like the longest back-off of a policy.
PUSH_RETRY_AFTER_S_MAX = 600.0
#: How long an endpoint has to answer, with any ack deadline.
PUSH_TIMEOUT_S_DEFAULT = 10
PUSH_TIMEOUT_S_MIN = 1
PUSH_TIMEOUT_S_MAX = 600
#: A message is leased for so much longer than its request may take: the answer must find it leased.
PUSH_LEASE_MARGIN_S = 5.0
#: How long the addresses of a name are believed.
PUSH_ADDRESS_AGE_S = 30.0
#: Bytes of an answer read, so that its connection can be used again. All but the first are thrown
#: away; of those, so many characters of text are kept for the dead letter.
PUSH_ANSWER_BYTES_MAX = 16 * 1024
PUSH_ANSWER_HEAD_BYTES_MAX = 64 * 1024
PUSH_ANSWER_KEPT_BYTES = 4 * 1024
PUSH_ANSWER_CHARACTERS = 200
#: How long an OIDC token is good.
PUSH_TOKEN_S = 3_600
PUSH_ENDPOINT_LENGTH_MAX = 2_048
#: Webhook secrets of one subscription: the old and the new one while it is replaced.
PUSH_SECRETS_MAX = 2

# Requests, unfolded and before they are parsed: of most methods, and of those that carry more.
REQUEST_BYTES_MAX = 1024 * 1024
#: As many ack ids as a request may have, each with a little room around it.
ACK_BYTES_MAX = 8 * 1024 * 1024
#: As many stages as an epoch may have, with query and attempt of usual lengths.
EPOCH_BYTES_MAX = 4 * 1024 * 1024
#: Requests up to this size are parsed at once; of larger ones the fields are counted before.
PARTS_UNCOUNTED_BYTES = 256 * 1024
#: Fields of a message besides its attributes: there are four, and a later API may add some.
MESSAGE_OTHER_FIELDS_MAX = 16
#: Bytes that are not known in a request, up to which the first such field is named.
UNKNOWN_BYTES_MAX = 10_000
#: Parts of a request that are searched for the field that is not known, in order to name it.
UNKNOWN_PARTS_MAX = 10_000

# The gRPC server: above PUBLISH_BYTES_MAX, so that the refusal is ours and names the limit.
GRPC_RECEIVE_BYTES_MAX = 24 * 1024 * 1024
#: Bytes of all requests that have begun and are not whole; beyond them the oldest is given up.
UNFINISHED_BYTES_MAX = 256 * 1024 * 1024
#: Bytes of long requests of one connection that are under way or being served; others wait.
CREDITED_BYTES_MAX = 64 * 1024 * 1024
#: Bytes of answers that wait for their reader: on one connection, and on all. Beyond them the
#: oldest is given up.
UNREAD_BYTES_MAX = 64 * 1024 * 1024
UNREAD_TOTAL_BYTES_MAX = 256 * 1024 * 1024
#: Bytes of acknowledgements of one stream that are not settled, or whose confirmation is not read.
SETTLING_BYTES_MAX = 4 * 1024 * 1024
#: Connections of callers, where the machine allows that many open files.
CONNECTIONS_MAX = 100_000
#: Open files that are neither callers' nor push's: the log, pipes, listening sockets, spools.
OTHER_FILES = 64
#: A request of the health and the reflection service names one thing.
HEALTH_REQUEST_BYTES_MAX = 4 * 1024
REFLECTION_REQUEST_BYTES_MAX = 64 * 1024

#: The body of an HTTP request unless set: a full publish request in base64, and the JSON around it.
HTTP_BYTES_MAX = 16 * 1024 * 1024
#: The weight of JSON, in a body or in data that a filter looks into: one for each comma, and more
#: for each list or object, which take 60 bytes or more. So it becomes some 64 MiB at most.
JSON_WEIGHT_MAX = 1_000_000
JSON_CONTAINER_WEIGHT = 4
#: Entries of one list of objects, and of one list of texts, unless a method says less.
JSON_OBJECTS_MAX = 10_000
JSON_TEXTS_MAX = 100_000
#: Lists and objects within each other in the arguments of a job: every reader of them recurses.
JOB_NESTING_MAX = 32
#: Least that it may be set to: a request that makes a subscription must pass.
HTTP_BYTES_MIN = 64 * 1024

#: How often a job is taken up before it is given up: each time, a worker did not come to an end.
JOB_ATTEMPTS_MAX = 5
#: Of arguments, and of a result, as JSON.
JOB_BYTES_MAX = 256 * 1024
#: Jobs remembered; the oldest that have ended are forgotten first.
JOBS_MAX = 10_000
#: How long a job waits for a worker, and how long one may be silent.
JOB_RETENTION_S = 31 * DAY_S
JOB_SILENCE_S = 60
#: Of the expression of a schedule.
CRON_LENGTH_MAX = 256
#: Of the message of a schedule: all of them are in memory.
SCHEDULE_BYTES_MAX = 256 * 1024
#: A tick that is found so late is missed: the broker did not run when it came, or its clock jumped.
SCHEDULE_LATE_S = 60.0
#: Missed ticks that a schedule makes up at once, the latest ones; and up to how many are counted.
SCHEDULE_CATCH_UP_MAX = 100
SCHEDULE_COUNT_MAX = 1_000
#: A schedule whose last tick is so far ahead of the clock begins anew when it is resumed.
SCHEDULE_AHEAD_S = DAY_S
#: How often the conditions of alerts are looked at, while there are any.
ALERT_LOOK_S = 5.0
#: How long a condition lasts before its alert begins or ends, unless the alert says otherwise; and
#: the longest that it may say.
ALERT_MINIMUM_S = 60.0
ALERT_MINIMUM_S_MAX = DAY_S
#: Of messages, seconds or bytes.
ALERT_LIMIT_MAX = 2**53
#: How long outcomes are kept for their readers; in the tables they stay.
OUTCOME_RETENTION_S = 7 * DAY_S
#: Size of one message of outcomes, roughly: easy to read, and far below the limit of a publish.
OUTCOME_BYTES = 256 * 1024
#: Crossings of marks that one minute tells one by one; of more, how many there were.
OUTCOME_CROSSINGS_MAX = 10_000

#: Of a backlog policy: its limits, and where its marks are by default, as parts of them.
BACKLOG_LIMIT_MESSAGES_MAX = 10**12
BACKLOG_LIMIT_BYTES_MAX = 2**50
BACKLOG_HIGH_DEFAULT = 0.8
BACKLOG_LOW_DEFAULT = 0.5
#: How long a publish may wait for room: less than the 60 s that official clients wait.
BACKLOG_BLOCK_S_MAX = 50
BACKLOG_SUMMARIES_S_MAX = 86_400
#: Stretches of offsets that are remembered of what a subscription's policy dropped in a partition;
#: drops with a pause of so long between them are two of them.
DROP_STRETCHES_MAX = 16
DROP_PAUSE_S = 600.0
#: Messages that are dropped or looked at in one turn of the loop, where each takes a step.
RELIEF_STEPS_MAX = 10_000
#: The smallest sample has one message of 2 to this power.
SAMPLE_LEVEL_MAX = 20

#: How long SIGTERM waits for open work.
DRAIN_S = 8.0
