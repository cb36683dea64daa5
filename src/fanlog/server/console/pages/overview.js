// All at a glance: what flows, what waits, what is wrong, and what it stands on.

import { age, ago, apiOf, badge, brief, bytes, count, empty, every, facts, get, h, heading, homeOf, link, note, number, percent, plural, projectOf, rate, ref, rowName, section, table } from "../kit.js";
import { chart, meter } from "../chart.js";
import * as live from "../live.js";

const TONES = { ERROR: "bad", WARNING: "warn", NOTE: "" };
const WORDS = { ERROR: "Error", WARNING: "Warning", NOTE: "Note" };

function whereOf(problem) {
	if (["topic", "subscription"].includes(problem.kind) && problem.resource) return link(problem.resource);
	if (problem.kind === "job" && problem.resource) return `#/projects/${projectOf(problem.resource)}/jobs`;
	return null;
}

export function problemList(problems) {
	if (!problems.length) {
		return h("p", { class: "fine" }, h("i", { "aria-hidden": "true" }), "Nothing is wrong. What begins to be appears here by itself.");
	}
	return h("ul", { class: "problems" }, problems.map((problem) => {
		const where = whereOf(problem);
		return h("li", { class: TONES[problem.severity] }, badge(WORDS[problem.severity] ?? "Note", TONES[problem.severity]),
			h("span", { class: "sentence" }, where ? h("a", { href: where }, problem.sentence) : problem.sentence),
			problem.since && h("small", {}, `for ${age(Math.max(1, Math.round((Date.now() - Date.parse(problem.since)) / 1000)))}`));
	}));
}

const TILES = [
	["published", "In", rate, ""], ["delivered", "Out", rate, "out"], ["acknowledged", "Acked", rate, "ok"],
	["failed", "Failed", rate, "bad"], ["waiting", "Waiting", brief, ""], ["age", "Oldest waits", age, "warn"],
];

export async function overview({ root, signal, server, project, may }) {
	const wrong = h("div", { "aria-live": "polite" });
	const tiles = TILES.map(([key, label, shown, tone]) => {
		const line = chart(label, [{ key, label, tone }], shown, { spark: true });
		const value = h("p", { class: "value" }, "–");
		return { key, shown, line, value, element: h("div", { class: `tile ${tone}` }, h("p", { class: "label" }, label), value, line.element) };
	});
	const flow = chart("Messages a second", [{ key: "published", label: "in", tone: "" }, { key: "delivered", label: "out", tone: "out" },
		{ key: "acknowledged", label: "acked", tone: "ok" }, { key: "failed", label: "failed", tone: "bad" }], rate);
	const waiting = chart("Messages that wait", [{ key: "waiting", label: "waiting", tone: "" }], brief);
	const disk = h("div");
	const tiers = h("div");
	const pipeline = h("div");
	const node = h("div");
	const live_ = may("fanlog.metrics.get");
	const busiest = section("Busiest topics");
	const largest = section("Largest backlogs");
	root.append(heading("Overview", { note: `Fanlog ${server.version} · up ${ago(server.startTime).replace(" ago", "")} · ${server.inMemory ? "in memory: nothing outlives it" : `server ${server.serverId.slice(0, 8)}`}${server.region ? ` · ${server.region}` : ""}` }),
		section("What is wrong right now", wrong));
	if (live_) {
		root.append(h("section", { class: "tiles", "aria-label": "Now" }, tiles.map((tile) => tile.element)),
			h("div", { class: "columns wide" }, section("Messages a second", flow.element), section("Backlog", waiting.element)));
	} else {
		root.append(empty("You may not read the numbers of the server.", "They need the permission fanlog.metrics.get. Topics and subscriptions show theirs on their pages."));
	}
	root.append(h("div", { class: "columns" }, busiest, largest));
	if (live_) root.append(h("div", { class: "columns four" }, section("Disk", disk), section("Tiers", tiers), section("Pipeline", pipeline), section("This node", node)));

	const draw = (sample) => {
		if (sample?.problems) wrong.replaceChildren(problemList(sample.problems));
		const kept = live.history("server");
		for (const tile of tiles) {
			tile.line.update(kept);
			tile.value.textContent = kept.length ? tile.shown(kept.at(-1)[tile.key]) : "–";
		}
		flow.update(kept);
		waiting.update(kept);
		const now = sample?.server;
		if (!now) return;
		const { disk: d, lake, jobs, node: n } = now;
		const used = Number(d.usedBytes);
		const room = Number(d.roomBytes);
		disk.replaceChildren(...[h("p", { class: "figure" }, bytes(used), h("small", {}, " used")), room > 0 && meter("Disk used", used, used + room),
			facts([["Room left", room > 0 ? bytes(room) : undefined], ["Free pages", bytes(d.freePageBytes)], ["State", d.degraded ? badge(d.degraded, "bad") : "healthy"]])].filter(Boolean));
		const lag = lake ? Number(lake.sequence) - Number(lake.archivedSequence) : 0;
		tiers.replaceChildren(h("p", { class: "figure" }, lake ? plural(lag, "commit") : "Hot only", h("small", {}, lake ? " to archive" : "")),
			facts(lake ? [["Lake", lake.uri], ["Archived", count(lake.archivedSequence)], ["State", lake.alarm ? badge(lake.alarm, "bad") : "healthy"]]
				: [["Hot", bytes(used)], ["Lake", "none: old messages leave with their retention"]]));
		pipeline.replaceChildren(h("p", { class: "figure" }, plural(jobs.running, "job"), h("small", {}, " under way")),
			facts([["Waiting jobs", count(jobs.waiting)], ["Schedules", count(now.schedules)], ["Schemas", count(now.schemas)]]));
		node.replaceChildren(h("p", { class: "figure" }, sample.hasRates ? percent(n.cpu) : "–", h("small", {}, " of a core")),
			facts([["Memory", bytes(n.memoryBytes)], ["Loop lag", age(n.loopLag)], ["Connections", `${count(n.grpcConnections)} gRPC, ${count(n.httpConnections)} HTTP`], ["Streams", count(n.streams)]]));
	};
	wrong.replaceChildren(note("Looking…"));
	draw();
	live.watch(signal, draw);
	if (!live_) {
		every(5000, signal, async () => {
			wrong.replaceChildren(problemList((await get("/v1/problems", { project: `projects/${project}` }, { signal })).problems ?? []));
		});
	}
	const rows = async () => {
		const path = apiOf(project);
		const [topics, subscriptions] = await Promise.all([
			may("pubsub.topics.list") ? get(`${path}/topics:search`, { orderBy: "rate", pageSize: 5 }, { signal }) : {},
			may("pubsub.subscriptions.list") ? get(`${path}/subscriptions:search`, { orderBy: "backlog", pageSize: 5 }, { signal }) : {},
		]);
		busiest.replaceChildren(busiest.firstChild, table("Busiest topics", [
			rowName("Topic", (row) => ref(row.name)),
			number("In", (row) => rate(row.published)),
			number("Messages", (row) => count(row.messages)),
			number("Subscriptions", (row) => count(row.subscriptions)),
		], topics.topics ?? [], empty("No topics yet.", "A topic takes messages; subscriptions of it deliver them.",
			h("a", { href: `${homeOf(project)}/topics` }, "Create the first one"))));
		largest.replaceChildren(largest.firstChild, table("Largest backlogs", [
			rowName("Subscription", (row) => ref(row.name)),
			number("Waiting", (row) => `${row.backlogEstimated ? "≈ " : ""}${count(row.backlog)}`),
			number("Oldest", (row) => (row.oldestUnackedAge ? age(row.oldestUnackedAge) : "–")),
			number("Acked", (row) => rate(row.acknowledged)),
		], subscriptions.subscriptions ?? [], empty("No subscriptions yet.", "Each has a backlog of its own and gets every message of its topic.")));
	};
	await every(3000, signal, rows);
}
