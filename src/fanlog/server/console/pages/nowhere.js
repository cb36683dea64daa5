import { a, empty, heading } from "../kit.js";

export function nowhere({ root }) {
	root.append(heading("Not here"), empty("There is no such page.", "The link may be of another version of the console.",
		a("#/", "To the overview")));
}
