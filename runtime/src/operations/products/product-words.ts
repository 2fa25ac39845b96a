/** What comments of generated clients, and OpenAPI documents, say of columns and products. */
import type { DescribedProduct, ProductWords } from './product-schema.ts'
import type { Readings, ShownColumn } from './readings.ts'

const MASKS: Readonly<Record<string, string>> = {
  hash: 'equal values stay equal',
  redact: 'nothing of them is left',
  partial: 'the last signs are left',
  null: 'always null',
}

/** `decimal(12,2), class pii.amount, masked for you by null: always null. What a customer owes.` */
export function columnWords({ type, mask, of }: ShownColumn, words: ProductWords): string {
  const said = of === null ? undefined : words.columns[of]
  const parts = [
    type,
    ...(said === undefined ? [] : [`class ${said.class}`]),
    ...(mask === null ? [] : [`masked for you by ${mask}${Object.hasOwn(MASKS, mask) ? `: ${MASKS[mask]}` : ''}`]),
  ]
  return [`${parts.join(', ')}.`, ...(said?.description ? [said.description] : [])].join(' ')
}

export function productWords({ schema, words }: DescribedProduct, { omitted, closed }: Readings): readonly string[] {
  return [
    `The product ${schema.namespace}.${schema.name}, version ${words.version} when this was written.`,
    ...(words.description === '' ? [] : [`It says of itself: ${words.description}`]),
    ...(omitted.length === 0 ? [] : [`Columns that you are not shown: ${omitted.join(', ')}.`]),
    ...closed.map((one) => `Not for you: ${one}.`),
  ]
}

const LONGEST = 400
/** Of words for people, which are compared with nothing: signs that could turn a line's direction, or not be seen at all. */
const UNSEEN = /[^ -~\p{L}\p{M}\p{N}\p{P}\p{S}]/gu

/** One line of signs that are seen as what they are. */
export function plainWords(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  const cut = line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line
  return cut.replace(UNSEEN, (sign) => `\\u{${(sign.codePointAt(0) as number).toString(16)}}`)
}
