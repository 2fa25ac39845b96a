/** What has become of the products that a file was made by. */
import { fullName, type ProductSchema, type SchemaColumn } from '../../operations/products/product-schema.ts'

export interface Difference {
  readonly product: string
  /** Code that is written against the file may fail by it. */
  readonly breaking: boolean
  readonly message: string
}

/** @param after null: there is no such product for the caller any more */
export function differencesOf(before: ProductSchema, after: ProductSchema | null): readonly Difference[] {
  const product = fullName(before)
  const say = (breaking: boolean, message: string): Difference => ({ product, breaking, message })
  if (after === null) return [say(true, 'it is not in service any more, or you may not read it')]
  const was = new Map(before.columns.map((column) => [column.name, column]))
  const is = new Map(after.columns.map((column) => [column.name, column]))
  const found = [
    ...before.columns.flatMap((column) => columnDifferences(column, is.get(column.name)).map(([b, m]) => say(b, m))),
    ...after.columns
      .filter(({ name, mask }) => !was.has(name) && mask !== 'omit')
      .map(({ name, type }) => say(false, `the column ${name} is new: ${type}`)),
    ...endpointDifferences(before, after).map(([b, m]) => say(b, m)),
  ]
  if (found.length > 0 || isSame(before, after)) return found
  // Columns in another order, or one that was never shown.
  return [say(false, 'its columns stand in another order, or others are not shown')]
}

type Found = readonly (readonly [breaking: boolean, message: string])[]

function columnDifferences(was: SchemaColumn, is: SchemaColumn | undefined): Found {
  const { name } = was
  if (is === undefined) return was.mask === 'omit' ? [] : [[true, `the column ${name} is gone`]]
  return [
    ...change(`the column ${name}: type`, was.type, is.type),
    ...(was.nullable === is.nullable
      ? []
      : [[is.nullable, `the column ${name} ${is.nullable ? 'may be null now' : 'is never null now'}`] as const]),
    ...change(`the column ${name}: part of the key`, yesNo(was.key), yesNo(is.key)),
    ...change(`the column ${name}: shown to you`, maskText(was.mask), maskText(is.mask)),
  ]
}

const yesNo = (is: boolean): string => (is ? 'yes' : 'no')
const maskText = (mask: string | null): string =>
  mask === null ? 'in clear' : mask === 'omit' ? 'not at all' : `masked (${mask})`

function change(what: string, was: string, is: string): Found {
  return was === is ? [] : [[true, `${what}: ${was} before, ${is} now`]]
}

const ENDPOINTS = ['lookup', 'realtime', 'timeseries'] as const

function endpointDifferences(before: ProductSchema, after: ProductSchema): Found {
  return ENDPOINTS.flatMap((type): Found => {
    const [was, is] = [before[type], after[type]]
    if (isSame(was, is)) return []
    if (was === null) return [[false, `the endpoint ${type} is new`]]
    if (is === null) return [[true, `the endpoint ${type} is gone`]]
    const parts = Object.keys(was).filter((part) => !isSame(was[part as never], is[part as never]))
    return parts.map((part) => {
      const [former, now] = [textOf(was[part as never]), textOf(is[part as never])]
      return [
        !isSuperset(is[part as never], was[part as never]),
        `the endpoint ${type}: ${part}: ${former} before, ${now} now`,
      ]
    })
  })
}

const isSame = (left: unknown, right: unknown): boolean => JSON.stringify(left) === JSON.stringify(right)
const textOf = (value: unknown): string => (Array.isArray(value) ? value.join(', ') || 'none' : String(value))

function isSuperset(whole: unknown, part: unknown): boolean {
  return Array.isArray(whole) && Array.isArray(part) && part.every((one) => whole.includes(one))
}
