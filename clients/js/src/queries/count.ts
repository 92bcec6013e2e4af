/** How many users say yes: the sum of zeros and ones. */
import { zeroOrOne, type Query } from "./base.js";
import { oneCell } from "./integerSum.js";

export const query: Query = (data, cells) => oneCell(data, zeroOrOne(cells));
