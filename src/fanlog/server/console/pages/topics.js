import { ago, apiOf, button, cell, count, empty, h, heading, idOf, number, rate, ref, rowName, searchTable } from "../kit.js";
import { createTopic } from "./topic_forms.js";

export function topics({ root, signal, project, may }) {
	const create = () => createTopic(project);
	root.append(heading("Topics", { note: "Publishers send messages to a topic; each of its subscriptions gets all of them.",
		actions: may("pubsub.topics.create") ? [button("Create a topic", create, "primary")] : [] }));
	root.append(searchTable({
		caption: "Topics", path: `${apiOf(project)}/topics:search`, field: "topics", order: "name", signal,
		placeholder: "Search topics by a part of the name",
		nothing: empty("No topics yet.", "Create one here, or publish with any Pub/Sub client that may.", may("pubsub.topics.create") && button("Create a topic", create, "primary")),
		columns: [
			rowName("Name", (row) => ref(row.name), "name"),
			number("In", (row) => rate(row.published), "rate"),
			number("Messages", (row) => count(row.messages), "messages"),
			number("Ever published", (row) => count(row.publishedTotal)),
			number("Subscriptions", (row) => count(row.subscriptions)),
			cell("Schema", (row) => (row.schema ? idOf(row.schema) : h("span", { class: "quiet-text" }, "none"))),
			cell("Created", (row) => ago(row.createTime)),
		],
	}).element);
}
