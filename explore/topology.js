import { put } from "./state.js";
export function showNetwork(box) { put(box, "network"); }
