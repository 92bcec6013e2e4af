/** Forms of texts that several parts of a task share. */
import { textOf, whole } from "../schema.js";

/** Texts that can be shown to people: no control characters, no change of direction. */
export const SHOWN = /^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/;
export const NAME = textOf(1, 100, SHOWN);

/** 32 bytes in hexadecimal digits. */
export const HEX32 = textOf(64, 64, /^[0-9a-f]*$/);

/** Seconds since 1970, up to the year 9999. */
export const seconds = (least: number) => whole(least, 253_402_300_799);

const URL_FORM =
  /^(https:\/\/([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])|http:\/\/(127\.0\.0\.1|localhost|\[::1\]))(:[1-9][0-9]{0,4})?(\/[A-Za-z0-9._~-]+)*$/;
export const SERVER = textOf(1, 300, URL_FORM);

/** A key configuration of RFC 9458: number, X25519, public key, HKDF-SHA256 and AES-128-GCM. */
export const GATEWAY = textOf(82, 82, /^[0-9a-f]{2}0020[0-9a-f]{64}000400010001$/);
