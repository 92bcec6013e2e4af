// Numbers between the bounds of a query.
import assert from "node:assert/strict";
import { test } from "node:test";

import { between } from "@shuffledp/client/testing";

const exactly = (text) => {
  const [whole, places = ""] = text.split(".");
  return [BigInt(whole + places), 10n ** BigInt(places.length)];
};
const number = ([n, d]) => Number(n) / Number(d);

test("the float nearest to a bound counts as the next one inside", () => {
  const inside = between({ low: exactly("-0.1"), high: exactly("0.1") });
  for (const sign of [1, -1]) {
    assert.equal(number(inside(0.1 * sign)), 0.09999999999999999 * sign); // 0.1 is above 1/10
    assert.equal(number(inside(0.05 * sign)), 0.05 * sign);
    for (const far of [0.10000000000000002, 0.2, 1e300, Infinity, NaN])
      assert.throws(() => inside(far * sign), /a number from -1\/10 to 1\/10/);
  }
});

test("a nearest float inside the bounds is taken as it is, and the next one outside refused", () => {
  const inside = between({ low: exactly("0"), high: exactly("0.7") }); // 0.7 is below 7/10
  assert.equal(number(inside(0.7)), 0.7);
  assert.equal(number(inside(0)), 0);
  assert.throws(() => inside(0.7000000000000001));
  assert.throws(() => inside(-5e-324));
  const zero = between({ low: exactly("0"), high: exactly("1") });
  assert.throws(() => zero(-Number.MIN_VALUE));
  // whatever the bounds: what is taken lies between them, also where they enclose no float
  const narrow = between({ low: exactly("0.1"), high: exactly("0.10000000000000000001") });
  for (const near of [0.1, 0.09999999999999999, 0.10000000000000002])
    assert.throws(() => narrow(near));
  const above = between({ low: exactly("1"), high: exactly("5") });
  for (const far of [0, -0, Number.MIN_VALUE, Number.MAX_VALUE, -Number.MAX_VALUE])
    assert.throws(() => above(far), /a number from 1 to 5/);
});
