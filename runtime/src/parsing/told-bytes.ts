/**
 * The bytes that a text tells as answers tell them: base64, with its padding or without; null for any other text. Node's own
 * reader passes over what it does not understand, so that `A` would be no bytes and `AB==` the same as `AA==`.
 */
export function toldBytes(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  const told = bytes.toString('base64')
  return text === told || text === told.replace(/=+$/, '') ? bytes : null
}
