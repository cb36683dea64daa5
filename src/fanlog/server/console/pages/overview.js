// All at a glance.

import { a, age, ago, apiOf, badge, brief, bytes, capital, columns, count, empty, every, facts, fine, get, h, heading, health, homeOf, link, note, number, oldest, percent, plural, projectOf, rate, ref, refill, rowName, section, show, table, tile, to, waiting } from "../kit.js";
import { chart, meter } from "../chart.js";
import * as live from "../live.js";

const TONES = { ERROR: "bad", WARNING: "warn", NOTE: "" };
const LISTS = { job: "jobs", alert: "alerts", schedule: "schedules" };

function whereOf(problem) {
	if (["topic", "subscription"].includes(problem.kind) && problem.resource) return link(problem.resource);
	const list = LISTS[problem.kind];
	return list && problem.resource ? `${homeOf(projectOf(problem.resource))}/${list}` : null;
}

function problemList(problems) {
	if (!problems.length) return fine("Nothing is wrong. What begins to be appears here by itself.");
	return h("ul.problems", problems.map((problem) => {
		const where = whereOf(problem);
		return h("li", { class: TONES[problem.severity] }, badge(capital(problem.severity.toLowerCase()), TONES[problem.severity]),
			h("span", where ? a(where, problem.sentence) : problem.sentence),
			problem.since && h("small", `for ${age(Math.max(1, Math.round((Date.now() - Date.parse(problem.since)) / 1000)))}`));
	}));
}

const TILES = [
	["published", "In", rate, ""], ["delivered", "Out", rate, "out"], ["acknowledged", "Acked", rate, "ok"],
	["failed", "Failed", rate, "bad"], ["waiting", "Waiting", brief, ""], ["age", "Oldest waits", age, "warn"],
];

const figure = (value, words) => h("p.figure", value, h("small", ` ${words}`));

const GROUNDS = {
	disk({ disk }) {
		const used = Number(disk.usedBytes);
		const room = Number(disk.roomBytes);
		return [figure(bytes(used), "used"), room > 0 && meter("Disk used", used, used + room),
			facts([["Room left", room > 0 && bytes(room)], ["State", health(disk.degraded)]])];
	},
	tiers({ lake, disk }) {
		if (!lake) return [figure("Hot only", ""), facts([["Hot", bytes(disk.usedBytes)], ["Lake", "none: old messages leave with their retention"]])];
		return [figure(plural(Number(lake.sequence) - Number(lake.archivedSequence), "commit"), "to archive"),
			facts([["Lake", lake.uri], ["Archived", count(lake.archivedSequence)], ["State", health(lake.alarm)]])];
	},
	pipeline({ pipelines, jobs }) {
		const { pipelines: there, flows, failing, missed } = pipelines;
		return [figure(there ? plural(flows, "flow") : "Not there", there ? "run" : ""),
			facts([["Failing", failing ? badge(plural(failing, "flow"), "bad") : there && "none"], ["Missed", missed && badge(plural(missed, "pipeline"), "warn")],
				["Jobs", `${count(jobs.running)} under way, ${count(jobs.waiting)} waiting`]])];
	},
	node({ node }, sample) {
		return [figure(sample.hasRates ? percent(node.cpu) : "–", "of a core"),
			facts([["Memory", bytes(node.memoryBytes)], ["Loop lag", age(node.loopLag)], ["Connections", `${count(node.grpcConnections)} gRPC, ${count(node.httpConnections)} HTTP`], ["Streams", count(node.streams)]])];
	},
};

export async function overview({ root, signal, server, project, may }) {
	const home = homeOf(project);
	const seesNumbers = may("fanlog.metrics.get");
	const wrong = h("div", { "aria-live": "polite" }, note("Looking…"));
	const tiles = TILES.map(([key, label, shown, tone]) => {
		const line = chart(label, [[key, label, tone]], shown, { spark: true });
		const value = h("p.value", "–");
		return { key, shown, line, value, element: tile(label, h("div", value, line.element), tone) };
	});
	const flow = chart("Messages a second", [["published", "in"], ["delivered", "out", "out"],
		["acknowledged", "acked", "ok"], ["failed", "failed", "bad"]], rate);
	const backlog = chart("Messages that wait", [["waiting", "waiting"]], brief);
	const to = (where, words, needs) => (may(needs) ? a(where, words) : words);
	const cluster = server.cluster && may("fanlog.cluster.get");
	const grounds = { disk: section(to(`${home}/topics?order=messages`, "Disk", "pubsub.topics.list")), tiers: section(to(`${home}/lake`, "Tiers", "fanlog.lake.get")),
		pipeline: section(to(`${home}/pipeline`, "Pipeline", "fanlog.pipelines.list")), node: section(cluster ? a("#/cluster", "This node") : "This node") };
	const nodes = cluster && section(a("#/cluster", "Nodes"));
	const busiest = section("Busiest topics");
	const largest = section("Largest backlogs");
	const kept = server.inMemory ? "in memory: nothing outlives it" : `server ${server.serverId.slice(0, 8)}`;
	root.append(heading("Overview", { note: [`Fanlog ${server.version}`, `up ${ago(server.startTime).replace(" ago", "")}`, kept, server.region].filter(Boolean).join(" · ") }),
		section("What is wrong right now", wrong));
	if (seesNumbers) root.append(h("section.tiles", { "aria-label": "Now" }, tiles.map((one) => one.element)), columns(section("Messages a second", flow.element), section("Backlog", backlog.element)));
	else root.append(empty("You may not read the numbers of the server.", "They need the permission fanlog.metrics.get. Topics and subscriptions have theirs on their pages."));
	root.append(columns(busiest, largest));
	if (seesNumbers) root.append(h("div.columns.four", Object.values(grounds), nodes));

	const draw = (sample) => {
		if (sample?.problems) show(wrong, problemList(sample.problems), sample.problemCount > sample.problems.length && note(`and ${count(sample.problemCount - sample.problems.length)} more`));
		const kept = live.history("server");
		for (const one of tiles) {
			one.line.update(kept);
			one.value.textContent = kept.length ? one.shown(kept.at(-1)[one.key]) : "–";
		}
		flow.update(kept);
		backlog.update(kept);
		if (sample?.server) for (const [name, card] of Object.entries(grounds)) refill(card, GROUNDS[name](sample.server, sample));
	};
	draw();
	live.watch(signal, draw);
	if (!seesNumbers) every(5000, signal, async () => show(wrong, problemList((await get("/v1/problems", { project: `projects/${project}` })).problems ?? [])));
	const nothing = { topics: empty("No topics yet.", "A topic takes messages; subscriptions of it deliver them.", a(`${home}/topics`, "Create the first one")),
		subscriptions: empty("No subscriptions yet.", "Each has a backlog of its own and gets every message of its topic.") };
	await every(3000, signal, async () => {
		const first = async (kind, orderBy) => (may(`pubsub.${kind}.list`) ? (await get(`${apiOf(project)}/${kind}:search`, { orderBy, pageSize: 5 }))[kind] ?? [] : []);
		const [topics, subscriptions, found] = await Promise.all([first("topics", "rate"), first("subscriptions", "backlog"), nodes && get("/v1/cluster")]);
		refill(busiest, table("Busiest topics", [rowName("Topic", "name", ref), number("In", "published", rate), number("Messages", "messages"), number("Subscriptions", "subscriptions")], topics, nothing.topics));
		refill(largest, table("Largest backlogs", [rowName("Subscription", "name", ref), waiting(), oldest(), number("Acked", "acknowledged", rate)], subscriptions, nothing.subscriptions));
		if (nodes) refill(nodes, figure(plural(found.nodes?.length, "node"), `in ${found.cluster}`), facts([["Owner", found.owner || health("none")], ["Term", count(found.term)], ["Kafka", health(!found.kafka?.reachable && "silent", "reachable")]]));
	});
}
