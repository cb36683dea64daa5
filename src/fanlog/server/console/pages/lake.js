// Where old messages go, and the pipeline that brings them there.

import { all, apiOf, ask, badge, button, cell, count, empty, every, facts, get, h, heading, note, number, plural, post, ref, rowName, section, table } from "../kit.js";
import { jobTable, startJob } from "./jobs.js";

const UPKEEP = ["verify", "compact", "expire"];

export async function lake({ root, signal, project, may }) {
	const card = section("The lake");
	const upkeep = section("Upkeep", note("What verify finds (gaps, duplicates, damaged files) stands in the job's result."));
	root.append(heading("Lake", { note: "Archived messages, in tables that any engine can read; subscriptions and this console read them as they read the log.",
		actions: may("fanlog.jobs.create") ? [button("Verify or tidy up", async () => (await startJob(project)) && draw())] : [] }), card, upkeep);
	const loss = () => ask({ title: "Accept a loss?", label: "Accept the loss", danger: true, done: "Accepted.", lead: "The lake that this server knew does not come back: what is only there is lost for good. Without this, the server waits for it.",
		act: () => post("/v1/lake:acceptLoss", { confirm: true }) });
	async function draw() {
		const found = await get("/v1/lake", {}, { signal });
		const lag = Number(found.sequence ?? 0) - Number(found.archivedSequence ?? 0);
		card.replaceChildren(card.firstChild, found.uri ? h("div", { class: "stack" }, facts([["Where", h("code", {}, found.uri)], ["Id", found.id && h("code", {}, found.id)],
			["State", found.alarm ? badge(found.alarm, "bad") : badge("healthy", "good")], ["Archived", `to commit ${count(found.archivedSequence)} of ${count(found.sequence)}`], ["Lag", plural(lag, "commit")]]),
			found.alarm && may("fanlog.lake.acceptLoss") ? h("div", {}, button("Accept a loss…", loss, "danger quiet")) : "")
			: empty("This server has no lake.", "Messages stay in its own log as long as they are kept. With --lake it serves what the pipeline archives."));
		if (may("fanlog.jobs.list")) {
			const jobs = (await all(`${apiOf(project)}/jobs`, "jobs", {}, 200)).filter((job) => UPKEEP.includes(job.kind));
			upkeep.replaceChildren(upkeep.firstChild, upkeep.children[1], jobTable(jobs, may, draw, empty("Nothing was asked for yet.")));
		}
	}
	await every(4000, signal, draw);
}

export async function pipeline({ root, signal, project, may }) {
	const card = section("Archive");
	const workers = section("Workers");
	const exports = section("Flows out of topics");
	root.append(heading("Pipeline", { note: "Spark beside the server: it archives the log, exports subscriptions and works on jobs." }),
		h("div", { class: "columns" }, card, workers), exports);
	await every(4000, signal, async () => {
		const [found, jobs, subscriptions] = await Promise.all([may("fanlog.lake.get") ? get("/v1/lake", {}, { signal }) : {}, may("fanlog.jobs.list") ? all(`${apiOf(project)}/jobs`, "jobs", {}, 200) : [],
			may("pubsub.subscriptions.list") ? all(`${apiOf(project)}/subscriptions:search`, "subscriptions", { orderBy: "backlog" }, 1000) : []]);
		const lag = Number(found.sequence ?? 0) - Number(found.archivedSequence ?? 0);
		card.replaceChildren(card.firstChild, found.uri ? facts([["State", found.alarm ? badge(found.alarm, "bad") : lag ? "archiving" : "all is archived"], ["Lag", plural(lag, "commit")]]) : empty("Nothing is archived.", "The server was started without a lake."));
		const by = Object.groupBy?.(jobs.filter((job) => job.worker), (job) => job.worker) ?? {};
		workers.replaceChildren(workers.firstChild, table("Workers", [
			rowName("Worker", (row) => row.worker),
			number("Under way", (row) => count(row.jobs.filter((job) => job.state === "RUNNING").length)),
			number("Ended", (row) => count(row.jobs.filter((job) => job.endTime).length)),
		], Object.entries(by).map(([worker, mine]) => ({ worker, jobs: mine })), empty("No worker has taken a job.", "“fanlog pipeline” or “fanlog up” starts one.")));
		exports.replaceChildren(exports.firstChild, table("Flows", [
			rowName("Subscription", (row) => ref(row.name)),
			cell("Kind", (row) => row.mode),
			cell("Topic", (row) => row.topic),
			number("Waiting", (row) => count(row.backlog)),
			cell("Trouble", (row) => (row.trouble ? badge(row.trouble, "bad") : badge("none", "good"))),
		], subscriptions.filter((row) => ["export", "forward"].includes(row.mode)), empty("No subscription exports or forwards.", "One that exports is written to files or tables by the pipeline.")));
	});
}
