import { age, apiOf, badge, button, cell, count, empty, heading, number, rate, ref, rowName, searchTable } from "../kit.js";
import { createSubscription } from "./subscription_forms.js";

export function subscriptions({ root, signal, project, may }) {
	const create = () => createSubscription(project);
	root.append(heading("Subscriptions", { note: "Each has a place of its own in the log of its topic, and what it has not acknowledged waits.",
		actions: may("pubsub.subscriptions.create") ? [button("Create a subscription", create, "primary")] : [] }));
	root.append(searchTable({
		caption: "Subscriptions", path: `${apiOf(project)}/subscriptions:search`, field: "subscriptions", order: "backlog", signal,
		placeholder: "Search subscriptions by a part of the name",
		nothing: empty("No subscriptions yet.", "A subscription gets every message that is published to its topic after it was made.", may("pubsub.subscriptions.create") && button("Create a subscription", create, "primary")),
		columns: [
			rowName("Name", (row) => [ref(row.name), row.trouble ? [" ", badge(row.trouble, "bad")] : null, row.detached ? [" ", badge("detached", "warn")] : null].flat(2), "name"),
			cell("Topic", (row) => (row.topic?.startsWith("projects/") ? ref(row.topic) : row.topic ?? "")),
			cell("Delivers by", (row) => badge(row.mode)),
			number("Waiting", (row) => `${row.backlogEstimated ? "≈ " : ""}${count(row.backlog)}`, "backlog"),
			number("Oldest", (row) => (row.oldestUnackedAge ? age(row.oldestUnackedAge) : "–"), "age"),
			number("Acked", (row) => rate(row.acknowledged), "rate"),
			number("Out", (row) => count(row.outstanding)),
			number("Consumers", (row) => count(row.consumers)),
		],
	}).element);
}
