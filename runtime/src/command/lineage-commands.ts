import { UsageError } from './arguments.ts'
import { painterFor } from './colours.ts'
import { type Command, type CommandCall, segment, word } from './command.ts'
import { type LineageAnswer, lineageTree } from './lineage-tree.ts'
import { pathOf } from './product-files.ts'
import { textTable } from './text-table.ts'

interface ImpactAnswer {
  readonly products: readonly {
    readonly id: string
    readonly namespace: string
    readonly name: string
    readonly columns: readonly {
      readonly name: string
      readonly classification: string
      readonly steps: number
      readonly manner: string
    }[]
    readonly reads_recorded: 'everybody' | 'administrators'
  }[]
  readonly readers: {
    readonly days: number
    readonly data: readonly {
      readonly product_id: string
      readonly subject: string
      readonly reads: number
      readonly last_at: string
    }[]
    readonly truncated: boolean
  } | null
  readonly truncated: boolean
}

export const LINEAGE_COMMANDS: Readonly<Record<string, Command>> = {
  lineage: {
    usage: 'lineage PRODUCT [--up | --down] [--columns]',
    summary: 'what a product is made of, and what is made of it',
    flags: {
      up: 'only what it is made of',
      down: 'only what is made of it',
      columns: 'each column, with what it is computed from',
      depth: 'how many steps; default 20',
    },
    remote: true,
    async run(call) {
      const { up, down, columns, depth = '20', json } = call.args.flags
      if (up && down) throw new UsageError('--up and --down: one of them, or neither for both')
      const direction = up ? 'upstream' : down ? 'downstream' : 'both'
      const query = new URLSearchParams({ direction, depth })
      const path = `/api/v1/products/${segment(call, 0, 'PRODUCT')}/lineage?${query}`
      const answer = (await (await call.client()).request('GET', path)) as LineageAnswer
      return json ? answer : lineageTree(answer, { columns: columns !== undefined, paint: painterFor(process.stdout) })
    },
  },
  impact: {
    usage: 'impact PRODUCT.COLUMN',
    summary: 'what is made of a column, through any number of products, and who read that',
    remote: true,
    async run(call) {
      const answer = (await (await call.client()).request('GET', pathOfImpact(call))) as ImpactAnswer
      return call.args.flags['json'] ? answer : shownImpact(answer)
    },
  },
}

/** The last dot ends the product, which may be `namespace.name` or a name alone. */
function pathOfImpact(call: CommandCall): string {
  const named = word(call, 0, 'PRODUCT.COLUMN')
  const dot = named.lastIndexOf('.')
  if (dot <= 0 || dot === named.length - 1) throw new UsageError('write PRODUCT.COLUMN: crm.people.email')
  const query = new URLSearchParams({ column: named.slice(dot + 1) })
  return `${pathOf(named.slice(0, dot))}/lineage/impact?${query}`
}

function shownImpact({ products, readers, truncated }: ImpactAnswer): string {
  if (products.length === 0) return 'Nothing is made of it.'
  const rows = products.flatMap(({ namespace, name, columns }) =>
    columns.map((column) => [`${namespace}.${name}`, column.name, column.classification, column.manner, column.steps]),
  )
  const more = truncated ? ['There is more than is told here.'] : []
  return [
    textTable(['product', 'column', 'class', 'manner', 'steps'], rows),
    ...more,
    '',
    ...shownReaders(products, readers),
  ].join('\n')
}

function shownReaders(products: ImpactAnswer['products'], readers: ImpactAnswer['readers']): readonly string[] {
  if (readers === null) return ['Who read them is told to developers.']
  const names = new Map(products.map(({ id, namespace, name }) => [id, `${namespace}.${name}`]))
  const rows = readers.data.map((one) => [names.get(one.product_id), one.subject, one.reads, one.last_at])
  const unrecorded = products.filter((one) => one.reads_recorded !== 'everybody')
  return [
    rows.length === 0
      ? `No read of the last ${readers.days} days is on record.`
      : textTable(['product', 'read by', 'reads', 'last'], rows),
    ...(readers.truncated ? ['There are more.'] : []),
    ...(unrecorded.length > 0
      ? [
          `Of ${unrecorded.length} of these products, which are not restricted, reads of administrators alone are on record.`,
        ]
      : []),
  ]
}
