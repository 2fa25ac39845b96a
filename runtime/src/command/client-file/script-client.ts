/** The client as a file of TypeScript. */
import { type LogicalType, typeName } from '@sluice/sdk'
import {
  type DescribedProduct,
  describedInOrder,
  digestOf,
  fullName,
  type ProductWords,
} from '../../operations/products/product-schema.ts'
import { columnWords, productWords } from '../../operations/products/product-words.ts'
import { type Readings, readingsOf, type ShownColumn } from '../../operations/products/readings.ts'
import { headText } from './file-head.ts'
import { commentText, scriptText, TypeNames } from './names.ts'
import { scriptTemplate } from './template.ts'

/** How answers tell values, by logical type; what is not known here may be anything. */
const TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    string: 'string',
    boolean: 'boolean',
    integer: 'number',
    long: 'Long',
    float: 'Double',
    double: 'Double',
    decimal: 'Decimal',
    date: 'DateText',
    timestamp: 'Timestamp',
    timestamptz: 'TimestampTz',
    uuid: 'Uuid',
    binary: 'Base64',
    json: 'Json',
  }),
)

export function scriptClient(products: readonly DescribedProduct[]): string {
  const template = scriptTemplate()
  const schemas = products.map(({ schema }) => schema)
  const names = new TypeNames(`${template} Products Sluice SCHEMA_DIGEST`, schemas.map(fullName))
  const written = describedInOrder(products).map((product) => writeProduct(product, names))
  return [
    headText({ language: 'ts', products: schemas }),
    '/* eslint-disable */\n',
    template,
    ...written.map(({ types }) => types),
    `export interface Products {\n${written.map(({ member }) => member).join('')}}\n`,
    sluiceClass(written.map(({ made }) => made)),
    `/** Of the schemas that this file was written by. */\nexport const SCHEMA_DIGEST = ${scriptText(digestOf(schemas))}\n`,
  ].join('\n')
}

function sluiceClass(made: readonly string[]): string {
  return `/** \`new Sluice({ url, token }).products['namespace.product']\` */
export class Sluice extends SluiceClient {
  readonly products: Products

  constructor(options: SluiceOptions) {
    super(options)
    this.products = {
${made.join('')}    }
  }
}
`
}

interface Written {
  readonly types: string
  /** Of the interface of all products. */
  readonly member: string
  /** What makes it. */
  readonly made: string
}

function writeProduct(product: DescribedProduct, names: TypeNames): Written {
  const full = fullName(product.schema)
  const readings = readingsOf(product.schema)
  const types = new Types(full, product.words, names)
  const row = types.row('Row', readings.row)
  const waysOf: readonly (readonly [name: string, type: string, made: string])[] = [
    ...lookupOf(readings, row, types),
    ...realtimeOf(readings, types),
    ...timeseriesOf(readings, row),
    ...changesOf(readings, row, types),
    tableOf(product, readings, row),
  ]
  const ways = waysOf.map(([name, type]) => `    readonly ${name}: ${type}\n`)
  const making = waysOf.map(([name, , made]) => `        ${name}: ${made},\n`)
  const told = productWords(product, readings).map((line) => `   * ${commentText(line)}\n`)
  return {
    types: types.text,
    member: `  /**\n${told.join('')}   */\n  readonly ${scriptText(full)}: {\n${ways.join('')}  }\n`,
    made: `      [${scriptText(full)}]: {\n${making.join('')}      },\n`,
  }

  function lookupOf({ lookup }: Readings, row: string, types: Types) {
    if (lookup === null) return []
    const own = lookup.row.length === readings.row.length ? row : types.row('LookupRow', lookup.row)
    const key = lookup.key === null ? 'never' : types.key('Key', lookup.key, true)
    const history = lookup.keepsHistory ? ', HistoryOptions' : ''
    return [endpoint('lookup', 'Lookup', `${own}, ${key}, ${union(lookup.filters)}${history}`)]
  }

  function realtimeOf({ realtime }: Readings, types: Types) {
    if (realtime === null) return []
    const own = types.row('RealtimeRow', realtime.row)
    return [endpoint('realtime', 'Realtime', `${own}, ${types.key('RealtimeKey', realtime.key, false)}`)]
  }

  function timeseriesOf({ timeseries }: Readings, row: string) {
    if (timeseries === null) return []
    const intervals = timeseries.intervals.map(scriptText).join(' | ') || 'never'
    return [endpoint('timeseries', 'Timeseries', `${row}, ${union(timeseries.filters)}, ${intervals}`)]
  }

  function changesOf({ changes }: Readings, row: string, types: Types) {
    return changes === null ? [] : [endpoint('changes', 'Changes', `${row}, ${types.row('KeyColumns', changes)}`)]
  }

  function endpoint(name: string, type: string, parameters: string) {
    return [name, `${type}<${parameters}>`, `new ${type}(this.connection, ${scriptText(full)})`] as const
  }
}

function tableOf({ schema: { namespace, name } }: DescribedProduct, { row: columns }: Readings, row: string) {
  const names = columns.map((column) => scriptText(column.name)).join(', ')
  const made = `new Table(this, [${scriptText(namespace)}, ${scriptText(name)}], [${names}])`
  return ['table', `Table<${row}>`, made] as const
}

const union = (columns: readonly ShownColumn[]): string =>
  columns.map(({ name }) => scriptText(name)).join(' | ') || 'never'

/** The declarations of one product. */
class Types {
  text = ''
  readonly #product: string
  readonly #words: ProductWords
  readonly #names: TypeNames

  constructor(product: string, words: ProductWords, names: TypeNames) {
    this.#product = product
    this.#words = words
    this.#names = names
  }

  row(suffix: string, columns: readonly ShownColumn[]): string {
    const name = this.#names.take(this.#product, suffix)
    const members = columns.map(
      (column) =>
        `  /** ${commentText(columnWords(column, this.#words))} */\n  readonly ${scriptText(column.name)}: ${typeOf(column)}\n`,
    )
    // A type and no interface: those have no index of their own, and are no records.
    this.text += `export type ${name} = {\n${members.join('')}}\n\n`
    return name
  }

  /** @param isShort whether the value of a single column may stand for it */
  key(suffix: string, columns: readonly ShownColumn[], isShort: boolean): string {
    const name = this.#names.take(this.#product, suffix)
    const members = columns.map((column) => `readonly ${scriptText(column.name)}: ${givenTypeOf(column)}`)
    const [only] = columns.length === 1 && isShort ? columns : []
    const short = only === undefined ? '' : ` | ${givenTypeOf(only)}`
    this.text += `export type ${name} = { ${members.join('; ')} }${short}\n\n`
    return name
  }
}

function typeOf({ type, nulls }: ShownColumn): string {
  if (nulls === 'only') return 'null'
  const own = toldTypeOf(type)
  return nulls === 'none' ? own : `${own} | null`
}

const toldTypeOf = (type: string): string => TYPES.get(typeName(type as LogicalType)) ?? 'Json'

/** Callers may have them as JavaScript has long numbers. */
const givenTypeOf = ({ type }: ShownColumn): string => `${toldTypeOf(type)}${type === 'long' ? ' | bigint' : ''}`
