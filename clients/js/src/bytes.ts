/** Bytes: how texts and numbers become bytes and back, and SHA-256. */
export type Bytes = Uint8Array<ArrayBuffer>;

export const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

export function join(...parts: readonly Uint8Array[]): Bytes {
  const found = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    found.set(part, at);
    at += part.length;
  }
  return found;
}

/** A whole number in `size` bytes, the most significant first. */
export const bytesOf = (number: number, size: number): Bytes =>
  Uint8Array.from({ length: size }, (_, i) => Math.floor(number / 256 ** (size - 1 - i)));

export const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export const fromHex = (text: string): Bytes =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Base64 for URLs, with padding. */
export const base64Url = (bytes: Bytes): string =>
  btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, "-")
    .replace(/\//g, "_");

/** The bytes behind base64, for URLs or not. */
export const fromBase64 = (text: string): Bytes =>
  Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) =>
    letter.charCodeAt(0),
  );

export const sha256 = async (bytes: Bytes): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

export const randomBytes = (size: number): Bytes => crypto.getRandomValues(new Uint8Array(size));
