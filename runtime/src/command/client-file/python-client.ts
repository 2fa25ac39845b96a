/** The client as a file of Python 3.9 and later. */
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
import { commentText, pythonText, TypeNames } from './names.ts'
import { pythonTemplate } from './template.ts'

/** How answers tell values, by logical type; what is not known here may be anything. */
const TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    string: 'str',
    boolean: 'bool',
    integer: 'int',
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

export function pythonClient(products: readonly DescribedProduct[]): string {
  const template = pythonTemplate()
  const schemas = products.map(({ schema }) => schema)
  const names = new TypeNames(`${template} Products Sluice SCHEMA_DIGEST`, schemas.map(fullName))
  const written = describedInOrder(products).map((product) => writeProduct(product, names))
  const members = written.map(({ full, type }) => `    ${pythonText(full)}: ${type},\n`)
  const made = written.map(({ full, type }) => `            ${pythonText(full)}: ${type}(self, self._connection),\n`)
  return [
    headText({ language: 'python', products: schemas }),
    template,
    ...written.map(({ text }) => text),
    `\nProducts = TypedDict("Products", {\n${members.join('')}})\n`,
    sluiceClass(made),
    `SCHEMA_DIGEST = ${pythonText(digestOf(schemas))}\n"""Of the schemas that this file was written by."""\n`,
  ].join('\n')
}

function sluiceClass(made: readonly string[]): string {
  return `
class Sluice(SluiceClient):
    """Sluice(url, token).products["namespace.product"]"""

    def __init__(
        self,
        url: str,
        token: Union[str, Callable[[], str]],
        tenant: Optional[str] = None,
        timeout_s: float = 30.0,
    ) -> None:
        super().__init__(url, token, tenant, timeout_s)
        self.products: Products = {
${made.join('')}        }

`
}

interface Written {
  /** Namespace and name. */
  readonly full: string
  /** The class of the product. */
  readonly type: string
  readonly text: string
}

function writeProduct(product: DescribedProduct, names: TypeNames): Written {
  const full = fullName(product.schema)
  const readings = readingsOf(product.schema)
  const types = new Types(full, product.words, names)
  const row = types.row('', readings.row)
  const type = names.take(full, '')
  const ways = [
    ...lookupOf(readings, row, types),
    ...realtimeOf(readings, types),
    ...timeseriesOf(readings, row, types),
    ...changesOf(readings, row, types),
    tableOf(product, readings, row),
  ]
  const told = productWords(product, readings).map((line) => `    # ${commentText(line)}\n`)
  const made = ways.map(
    ([name, type, more]) => `        self.${name}: ${type} = ${type.replace(/\[.*/, '')}(${more})\n`,
  )
  const init = '    def __init__(self, client: SluiceClient, connection: SluiceConnection) -> None:\n'
  return { full, type, text: `${types.text}\nclass ${type}:\n${told.join('')}\n${init}${made.join('')}` }

  function lookupOf({ lookup }: Readings, row: RowTypes, types: Types) {
    if (lookup === null) return []
    const own = lookup.row.length === readings.row.length ? row : types.row('Lookup', lookup.row)
    const key = lookup.key === null ? 'NoReturn' : types.key('Key', lookup.key, true)
    const filter = types.filter('LookupFilter', lookup.filters)
    return [endpoint('lookup', `Lookup[${own.row}, ${own.part}, ${key}, ${own.column}, ${filter}]`)]
  }

  function realtimeOf({ realtime }: Readings, types: Types) {
    if (realtime === null) return []
    const own = types.row('Realtime', realtime.row)
    const key = types.key('RealtimeKey', realtime.key, false)
    return [endpoint('realtime', `Realtime[${own.row}, ${own.part}, ${key}, ${own.column}]`)]
  }

  function timeseriesOf({ timeseries }: Readings, row: RowTypes, types: Types) {
    if (timeseries === null) return []
    const filter = types.filter('TimeseriesFilter', timeseries.filters)
    return [endpoint('timeseries', `Timeseries[${row.row}, ${row.part}, ${row.column}, ${filter}]`)]
  }

  function changesOf({ changes }: Readings, row: RowTypes, types: Types) {
    if (changes === null) return []
    return [
      endpoint('changes', `Changes[${row.row}, ${types.dictionary('KeyColumns', changes.map(types.member), true)}]`),
    ]
  }

  function endpoint(name: string, type: string) {
    return [name, type, `connection, ${pythonText(full)}`] as const
  }
}

function tableOf({ schema: { namespace, name } }: DescribedProduct, { row: columns }: Readings, row: RowTypes) {
  const names = columns.map((column) => pythonText(column.name)).join(', ')
  const type = `Table[${row.row}, ${row.part}, ${row.column}]`
  return ['table', type, `client, ${pythonText(namespace)}, ${pythonText(name)}, [${names}]`] as const
}

/** Names of the types of a row: whole, of some columns, and of the names of its columns. */
interface RowTypes {
  readonly row: string
  readonly part: string
  readonly column: string
}

/** The declarations of one product. Rows are dictionaries: whatever a column is called is a key of them. */
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

  row(suffix: string, columns: readonly ShownColumn[]): RowTypes {
    const members = columns.map(
      (column) => `    # ${commentText(columnWords(column, this.#words))}\n${this.member(column)}`,
    )
    const row = this.dictionary(`${suffix}Row`, members, true)
    const part = this.dictionary(`${suffix}Part`, columns.map(this.member), false)
    const column = this.#names.take(this.#product, `${suffix}Column`)
    const literals = columns.map(({ name }) => pythonText(name)).join(', ')
    this.text += `${column} = ${literals === '' ? 'str' : `Literal[${literals}]`}\n`
    return { row, part, column }
  }

  readonly member = (column: ShownColumn): string => `    ${pythonText(column.name)}: ${typeOf(column)},\n`

  dictionary(suffix: string, members: readonly string[], isTotal: boolean): string {
    const name = this.#names.take(this.#product, suffix)
    const total = isTotal ? '' : ', total=False'
    this.text += `${name} = TypedDict("${name}", {\n${members.join('')}}${total})\n`
    return name
  }

  filter(suffix: string, columns: readonly ShownColumn[]): string {
    const members = columns.map(
      ({ name, type }) => `    ${pythonText(name)}: Union[${toldTypeOf(type)}, Mapping[Operator, Any]],\n`,
    )
    return this.dictionary(suffix, members, false)
  }

  /** @param isShort whether the value of a single column may stand for it */
  key(suffix: string, columns: readonly ShownColumn[], isShort: boolean): string {
    const whole = this.dictionary(`${suffix}Values`, columns.map(this.member), true)
    const [only] = columns.length === 1 && isShort ? columns : []
    if (only === undefined) return whole
    const name = this.#names.take(this.#product, suffix)
    this.text += `${name} = Union[${toldTypeOf(only.type)}, ${whole}]\n`
    return name
  }
}

function typeOf({ type, nulls }: ShownColumn): string {
  if (nulls === 'only') return 'None'
  return nulls === 'none' ? toldTypeOf(type) : `Optional[${toldTypeOf(type)}]`
}

const toldTypeOf = (type: string): string => TYPES.get(typeName(type as LogicalType)) ?? 'Json'
