/** Words of authors in a document that pages and generators of others make something of. */
import { plainWords } from '../../operations/products/product-words.ts'

/** Descriptions are CommonMark, which may hold HTML and addresses of pictures: in those of authors neither begins. */
export const describingText = (text: string): string => plainWords(text).replace(/[\\<[\]`]/g, '\\$&')

/** Beyond what can be seen. */
const UNSEEN = /[^ -~\p{L}\p{M}\p{N}\p{P}\p{S}]/gu

/** JSON of the same value that ends no script, and in which no sign is unseen or turns the direction of a line. */
export function quietJson(value: unknown): string {
  return JSON.stringify(value).replace(/</g, '\\u003c').replace(UNSEEN, escaped)
}

const escaped = (sign: string): string => {
  const units = Array.from({ length: sign.length }, (_, at) => sign.charCodeAt(at))
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
}
