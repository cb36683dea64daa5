// The nodes that serve one log, and Kafka, which keeps it.

import { age, ask, asking, badge, cell, code, columns, count, every, facts, fill, get, h, heading, health, note, number, plural, post, refill, rowActs, rowName, section, table, to } from "../kit.js";

const ROLES = { OWNER: ["owns the log", "good"], STANDBY: ["stands by", "accent"], STARTING: ["catches up", "warn"], GONE: ["gone", "bad"], FAILED: ["failed", "bad"] };

const role = (node) => badge(...(ROLES[node.role] ?? [node.role ?? "", ""]));

export async function cluster({ root, signal, may }) {
	const log = section("The log");
	const kafka = section("Kafka");
	const nodes = section("Nodes");
	let members = [];
	const move = (to = "") => ask({ title: "Have another node own the log?", label: "Move", danger: true,
		lead: "Calls wait for a moment, and outstanding messages may be delivered again.",
		fields: [["node", "To", "select", { value: to, options: [["", "the one that is furthest on"], ...members.filter((node) => node.role === "STANDBY").map((node) => node.name)] }]],
		act: ({ node }) => post("/v1/cluster:move", { node }), done: (answer) => `${answer.to} is to own the log, which ${answer.from} had.` });
	const mayMove = may("fanlog.cluster.move");
	root.append(heading("Cluster", { note: "Any node answers all calls; the owner of the log does the work, and when it is gone another takes over.",
		actions: mayMove && asking("Move the log", () => move(), draw) }), columns(log, kafka), nodes);
	async function draw() {
		const found = await get("/v1/cluster");
		members = found.nodes ?? [];
		refill(log, facts([["Cluster", found.cluster], ["Owner", found.owner || badge("none: calls wait", "bad")], ["Term", Number(found.term) < 0 ? "none yet" : count(found.term ?? 0), "the offset it began at"],
			["End", `offset ${count(found.endOffset)}, commit ${count(found.sequence)}`], ["Session", age(found.session), "silence after which another node takes over"],
			["Told by", found.toldBy]]));
		const { servers = [], reachable, silent, troubles = [] } = found.kafka ?? {};
		refill(kafka, facts([["State", health(!reachable && "silent", "reachable")], ["Heard of", `${age(silent)} ago`], ["Topic", code(found.topic)], ["Servers", code(servers.join(", "))]]),
			troubles.length ? h("ul.problems.below", troubles.map((trouble) => h("li.bad", badge("Trouble", "bad"), h("span", trouble)))) : note("No trouble with the topic or its replicas."));
		refill(nodes, table("Nodes", [
			rowName("Name", "name"),
			cell("Role", role),
			cell("Address", "apiAddress", code),
			cell("Link", "linkAddress", code),
			number("Applied", "appliedOffset"),
			number("Lag", (node) => (node.role === "OWNER" ? "–" : `${plural(node.lagRecords ?? 0, "record")}, ${age(node.lag)}`)),
			number("Heard of", (node) => (node.name === found.toldBy ? "now" : `${age(node.silent)} ago`)),
			fill("Trouble", (node) => node.trouble),
			rowActs((node) => mayMove && node.role === "STANDBY" && asking("Move here", () => move(node.name), draw, "small")),
		], members));
	}
	await every(2000, signal, draw);
}
