/** What comments of a generated file say of columns and products. */
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
