// Spark beside the server: its flows, its jobs, and the lake that it fills.

import { age, ago, all, apiOf, ask, asking, badge, button, bytes, cell, code, columns, count, empty, every, facts, fill, fine, get, h, heading, health, idOf, inform, note, number, oldest, pathOf, plural, post, ref, refill, remove, rowActs, rowName, section, show, table, time, to, waiting } from "../kit.js";

const TONES = { DONE: "good", FAILED: "bad", RUNNING: "accent", CANCELLING: "warn" };
const stateOf = (job) => badge((job.state ?? "WAITING").toLowerCase(), TONES[job.state]);
const over = (job) => ["DONE", "FAILED", "CANCELLED"].includes(job.state);

function progressOf(job) {
	if (over(job)) return job.error || (job.endTime ? `ended ${ago(job.endTime)}` : "");
	if (!Number(job.total)) return job.phase || (job.worker ? "under way" : "waits for a worker of the pipeline");
	return h("div", h("progress", { max: job.total, value: job.done ?? "0", "aria-label": `Progress of ${idOf(job.name)}` }),
		h("small", `${count(job.done)} of ${count(job.total)}${job.phase ? `, ${job.phase}` : ""}${job.remainingSeconds ? `, ${age(job.remainingSeconds)} left` : ""}`));
}

function look(job) {
	const shown = (value) => h("pre.data", { tabindex: "0" }, JSON.stringify(value, null, 2));
	inform(`Job ${idOf(job.name)}`, facts([["Kind", job.kind], ["State", stateOf(job)], ["Attempt", job.attempt],
		["Asked for", job.createTime, time], ["Started", job.startTime, time], ["Ended", job.endTime, time], ["Error", job.error]]),
	h("h3", "Arguments"), shown(job.arguments ?? {}), job.result && [h("h3", "Result"), shown(job.result)]);
}

const KINDS = [["verify", "verify: compare lake and log"], ["compact", "compact: merge small files of the lake"], ["expire", "expire: let go of what retention has"]];

const startJob = (project) => ask({ title: "Start a job", done: "The job waits for the pipeline.",
	fields: [["kind", "What", "select", { options: KINDS }], ["topics", "Topics", "mono", { placeholder: "all", hint: "Ids with commas between them.", show: (now) => now.kind === "verify" }]],
	act: ({ kind, topics }) => post(`${apiOf(project)}/jobs`, { kind, arguments: kind === "verify" && topics ? { topics: topics.split(",").map((one) => one.trim()) } : {} }) });

const jobTable = (jobs, may, after, nothing) => table("Jobs", [
	rowName("Job", (row) => button(idOf(row.name), () => look(row), "as-link mono")),
	cell("Kind", "kind"),
	cell("State", stateOf),
	fill("Progress", progressOf),
	cell("Worker", "worker"),
	cell("Asked for", "createTime", ago),
	rowActs((row) => (over(row)
		? may("fanlog.jobs.delete") && asking("Forget", () => ask({ title: `Forget ${idOf(row.name)}?`, lead: "Its result goes with it.", done: "Forgotten.", act: () => remove(pathOf(row.name)) }), after, "quiet small")
		: may("fanlog.jobs.cancel") && asking("Cancel", () => ask({ title: `Cancel ${idOf(row.name)}?`, label: "Cancel the job", danger: true, lead: "What it has done so far stays done.", done: "The job is being cancelled.", act: () => post(`${pathOf(row.name)}:cancel`) }), after, "small"))),
], jobs, nothing);

const jobsOf = (project) => all(`${apiOf(project)}/jobs`, "jobs", {}, 200);

export async function jobs({ root, signal, project, may }) {
	const card = h("div.card.list");
	root.append(heading("Jobs", { note: "Bounded work of the pipeline: backtests, redrives, upkeep of the lake.", actions: may("fanlog.jobs.create") && asking("Start a job", () => startJob(project), draw, "primary") }), card);
	let before = "";
	async function draw() {
		const found = await jobsOf(project);
		const now = JSON.stringify(found);
		if (now === before && found.every(over)) return;
		before = now;
		show(card, jobTable(found, may, draw, empty("No jobs.", "Start one here, or try a filter on all of history.")));
	}
	await every(2000, signal, draw);
}

const archiveFacts = (found) => facts([["Where", found.uri, code], ["Id", found.id, code], ["State", health(found.alarm)],
	["Archived", `to commit ${count(found.archivedSequence)} of ${count(found.sequence)}`], ["Lag", plural(Number(found.sequence ?? 0) - Number(found.archivedSequence ?? 0), "commit")]]);
const noLake = empty("This server has no lake.", "Messages stay in its own log as long as they are kept. With --lake the pipeline archives them.");

const UPKEEP = ["verify", "compact", "expire"];

function foundBy(jobs) {
	const [last] = jobs.filter((job) => job.kind === "verify" && job.state === "DONE").sort((one, other) => other.endTime.localeCompare(one.endTime));
	if (!last) return "never: the pipeline compares lake and log when asked to";
	const { is_fine: fine, damaged_files: files = [] } = last.result ?? {};
	return [health(fine ? "" : "problems found", "nothing wrong"), ` ${ago(last.endTime)}`, files.length > 0 && h("ul.labels", files.map((file) => h("li", JSON.stringify(file))))];
}

const lookAtFiles = (row) => {
	const files = [...(row.largest ?? []), ...(row.smallest ?? [])];
	inform(`Files of ${row.name}`, note(`The largest of ${plural(row.files ?? 0, "file")}${row.smallest ? ", and the smallest" : ""}.`),
		table("Files", [rowName("File", "path", code), number("Size", "bytes", bytes), number("Rows", "rows")], files, empty("The table has no files yet.")));
};

const tablesOf = (found) => table("Tables", [
	rowName("Table", (row) => button(row.name, () => lookAtFiles(row), "as-link mono")),
	number("Rows", "rows"), number("Files", "files"), number("Small files", "smallFiles"), number("Size", "bytes", bytes),
	number("Largest", (row) => bytes(row.largest?.[0]?.bytes)), number("Smallest", (row) => bytes((row.smallest ?? row.largest)?.at(-1)?.bytes)), number("Version", "version"),
	fill("Trouble", (row) => row.trouble && badge(row.trouble, "bad")),
], found.tables ?? [], empty("No tables."));

export async function lake({ root, signal, project, may }) {
	const [archive, damage, tables, upkeep] = ["Archive", "Damage", "Tables", "Upkeep"].map((title) => section(title));
	root.append(heading("Lake", { note: "Archived messages, in tables that any engine can read; subscriptions read them as they read the log.",
		actions: may("fanlog.jobs.create") && asking("Verify or tidy up", () => startJob(project), draw) }), columns(archive, damage), tables, upkeep);
	const loss = async () => {
		const would = await post("/v1/lake:acceptLoss", {});
		return ask({ title: "Accept a loss?", label: "Accept the loss", danger: true, done: "Accepted.",
			lead: `${plural(would.messages ?? 0, "message")} of ${plural(would.losses?.length ?? 0, "topic")} would be lost for good, and the archive would go on behind commit ${count(would.sequence)}. Without this, the server waits for the lake that it knew.`,
			act: () => post("/v1/lake:acceptLoss", { confirm: true }) });
	};
	async function draw() {
		const found = await get("/v1/lake");
		const jobs = may("fanlog.jobs.list") ? (await jobsOf(project)).filter((job) => UPKEEP.includes(job.kind)) : [];
		refill(upkeep, jobTable(jobs, may, draw, empty("Nothing was asked for yet.", "A pipeline merges small files once an hour by itself.")));
		tables.hidden = damage.hidden = !found.uri;
		refill(archive, found.uri ? archiveFacts(found) : noLake);
		if (!found.uri) return;
		refill(damage, facts([["Unreadable", health(found.damagedPlaces && plural(found.damagedPlaces, "place"), "none")], ["Given up", plural(found.lostMessages ?? 0, "message")], ["Verified", foundBy(jobs)]]),
		found.damaged && h("ul.note.below", found.damaged.map((sentence) => h("li", sentence))),
		(found.alarm || found.damaged) && may("fanlog.lake.acceptLoss") && h("div.below", asking("Accept a loss…", loss, draw, "danger quiet")));
		refill(tables, tablesOf(await get("/v1/lake/tables")));
	}
	await every(4000, signal, draw);
}

function pipelineCard(one) {
	return section(["Spark on ", one.master || one.name, " ", health(one.missed && "not heard of", "there")],
		facts([["Name", code(one.name)], ["Spark", `${one.sparkVersion ?? "?"}, ${plural(one.parallelism ?? 0, "task")} at a time`], ["Fanlog", one.version], ["Started", one.startTime, ago],
			["Heard of", `${age(one.silent)} ago`], ["Job", one.job ? code(idOf(one.job)) : "none under way"]]),
		h("h3.below", "Flows"), table(`Flows of ${one.name}`, [
			rowName("Flow", "name"),
			cell("State", (flow) => (one.missed ? badge("unknown") : health(flow.state === "RESTING" && "rests", "runs"))),
			cell("Since", "startTime", ago),
			number("Batch", (flow) => (flow.batch === undefined ? "–" : count(flow.batch))),
			cell("Last batch", "batchTime", ago),
			number("Failures", "failures"),
			fill("Last failure", (flow) => flow.failureTime && [time(flow.failureTime), " ", flow.error]),
		], one.flows ?? [], note("It tells of no flows.")));
}

export async function pipeline({ root, signal, project, may }) {
	const [archive, leaving] = [section("Archive"), section("Out of topics")];
	const sparks = h("div.stack");
	root.append(heading("Pipeline", { note: "Spark beside the server archives the log, exports subscriptions and works on jobs.",
		actions: [may("fanlog.jobs.list") && h("a.button", { href: to(project, "jobs") }, "Jobs"), may("fanlog.lake.get") && h("a.button", { href: to(project, "lake") }, "Lake")] }), sparks, columns(archive, leaving));
	await every(3000, signal, async () => {
		const [{ pipelines = [] }, found, subscriptions] = await Promise.all([get("/v1/pipelines"), may("fanlog.lake.get") ? get("/v1/lake") : {},
			may("pubsub.subscriptions.list") ? all(`${apiOf(project)}/subscriptions:search`, "subscriptions", { orderBy: "backlog" }, 1000) : []]);
		show(sparks, pipelines.length ? pipelines.map((one) => pipelineCard(one)) : section("Spark", empty("No pipeline works for this server.", "“fanlog pipeline” starts one. Without it nothing is archived or exported, and jobs wait.")));
		refill(archive, found.uri ? archiveFacts(found) : noLake);
		refill(leaving, table("Exports and forwards", [
			rowName("Subscription", "name", ref),
			cell("Kind", "mode", badge),
			cell("Topic", (row) => idOf(row.topic)),
			waiting(), oldest(),
			fill("Trouble", (row) => health(row.trouble, "none")),
		], subscriptions.filter((row) => ["export", "forward"].includes(row.mode)), empty("No subscription exports or forwards.", "One that exports is written to files or tables by the pipeline.")));
	});
}
