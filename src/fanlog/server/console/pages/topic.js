import { age, apiOf, badge, brief, button, cell, code, count, empty, every, facts, get, h, heading, homeOf, idOf, labels, note, number, pathOf, rate, ref, rights, rowName, section, table } from "../kit.js";
import { chart } from "../chart.js";
import * as live from "../live.js";
import { deleteTopic, editTopic, publish } from "./topic_forms.js";
import { permissions } from "./permissions.js";
import { snapshotTable } from "./snapshots.js";
import { createSubscription } from "./subscription_forms.js";

export async function topic({ root, names: [id], signal, project, reload }) {
	const name = `projects/${project}/topics/${id}`;
	const [found, may] = await Promise.all([get(pathOf(name), {}, { signal }), rights(name, `projects/${project}`)]);
	const base = homeOf(project);
	const actions = [
		may("fanlog.topics.read") && h("a", { class: "button", href: `${base}/messages?topic=${encodeURIComponent(id)}` }, "Browse messages"),
		may("pubsub.topics.publish") && button("Publish", () => publish(name), "primary"),
		may("pubsub.topics.update") && button("Edit", async () => (await editTopic(found, project)) && reload()),
		may("pubsub.topics.delete") && button("Delete", () => deleteTopic(name, project), "danger quiet"),
	].filter(Boolean);
	const order = found.labels?.["fanlog-ordering"];
	root.append(heading(id, { kind: "Topic", actions, badges: [found.schemaSettings && badge("schema"), order && badge(`order: ${order}`)].filter(Boolean) }));
	const flow = chart("Messages a second", [{ key: "published", label: "in", tone: "" }], rate);
	const now = h("div", { class: "tiles slim" });
	const schema = found.schemaSettings?.schema;
	root.append(now, h("div", { class: "columns wide" }, section("Messages a second", flow.element),
		section("Settings", facts([
			["Name", code(name)],
			["Kept", found.messageRetentionDuration ? age(found.messageRetentionDuration) : "as long as the server and its subscriptions say"],
			["Schema", schema && h("span", {}, `${idOf(schema)} (${found.schemaSettings.encoding})`)],
			["Order", order ?? "by ordering key"],
			["Labels", found.labels && labels(found.labels)],
			["State", found.state === "ACTIVE" ? undefined : found.state],
		]))));
	const subscriptions = section("Subscriptions");
	root.append(subscriptions);
	const draw = (sample) => {
		flow.update(live.history(name));
		const mine = sample?.topics?.find((one) => one.name === name);
		if (!mine) return;
		now.replaceChildren(...[["In", sample.hasRates ? rate(mine.published) : "–"], ["Messages in the log", brief(Number(mine.messages))], ["Ever published", count(mine.publishedTotal)]]
			.map(([label, value]) => h("div", { class: "tile" }, h("p", { class: "label" }, label), h("p", { class: "value" }, value))));
	};
	draw();
	live.watch(signal, draw);
	await every(4000, signal, async () => {
		const found = await get(`${apiOf(project)}/subscriptions:search`, { topic: name, orderBy: "backlog", pageSize: 100 }, { signal });
		subscriptions.replaceChildren(subscriptions.firstChild, table("Subscriptions of the topic", [
			rowName("Name", (row) => ref(row.name)),
			cell("Delivers by", (row) => row.mode),
			number("Waiting", (row) => count(row.backlog)),
			number("Oldest", (row) => (row.oldestUnackedAge ? age(row.oldestUnackedAge) : "–")),
			number("Acked", (row) => rate(row.acknowledged)),
			number("Consumers", (row) => count(row.consumers)),
			cell("Filter", (row) => (row.filter ? h("code", { class: "cut" }, row.filter) : "")),
		], found.subscriptions ?? [], empty("Nobody subscribes.", "Messages are kept as long as the topic's retention says; without any they are gone at once.",
			may("pubsub.subscriptions.create") && button("Create a subscription", () => createSubscription(project, id)))));
		if (found.nextPageToken) subscriptions.append(note(`The first 100 of ${count(found.total)}.`));
	});
	if (may("pubsub.topics.get")) root.append(await snapshotTable(`${pathOf(name)}/snapshots`, may, reload));
	root.append(await permissions(name, "topics", may));
}
