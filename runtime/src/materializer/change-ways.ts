/** How what its inputs have changed finds its way to rows of a product, as far as its manifests tell. */
import type { ColumnLineage, Engine, EngineLimits, KeyedParts } from '@sluice/engine'
import { isSluiceError } from '@sluice/sdk'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { InputState } from './input-state.ts'
import { stagedTable } from './staged-rows.ts'
import { chosenColumns } from './transform.ts'

/**
 * `rows`: each row of the product is made of one of the input's, by whose key it goes. `keys`: the rows with one key of the product
 * are made of the driving table's rows with that key, and of what the others join to them.
 */
export type ChangeWay =
  | { readonly kind: 'rows'; readonly input: InputState }
  | { readonly kind: 'keys'; readonly tables: readonly [DrivingTable, ...JoinedTable[]] }

export interface DrivingTable {
  readonly input: InputState
  /** Columns whose values the product's key has. */
  readonly keys: readonly string[]
}

export interface JoinedTable {
  readonly input: InputState
  readonly link: {
    /** Place in `tables`, before this one. */
    readonly parent: number
    readonly parentColumn: string
    readonly column: string
  }
}

export interface WayRequest {
  readonly tenant: string
  readonly manifests: ManifestSet
  readonly inputs: readonly InputState[]
  readonly limits: EngineLimits
  readonly signal: AbortSignal
}

/**
 * Null: any row may depend on any other, or the transform cannot be bound to the inputs, which is told of where all is made.
 * Throws as `Engine.run` does otherwise.
 */
export async function changeWay(request: WayRequest, engine: Pick<Engine, 'run'>): Promise<ChangeWay | null> {
  try {
    const way = await wayOfTransform(request, engine)
    if (way === null) return null
    const used = way.kind === 'rows' ? [way.input] : way.tables.map(({ input }) => input)
    for (const input of used) if (!(await isFilteredByRow(input, request, engine))) return null
    return way
  } catch (error) {
    if (isSluiceError(error, 'INVALID_DATA')) return null
    throw error
  }
}

async function wayOfTransform(request: WayRequest, engine: Pick<Engine, 'run'>): Promise<ChangeWay | null> {
  const { inputs, manifests, tenant, limits, signal } = request
  const { transform } = manifests.compute
  const [first] = inputs
  if (first === undefined) return null
  if (transform === null) {
    const same = new Map(manifests.output.primaryKey.map((name) => [name, { table: first.input.name, column: name }]))
    return hasKey(first, first.state.primaryKey, same, manifests) ? { kind: 'rows', input: first } : null
  }
  const tables = inputs.map((one) => stagedTable(one.input.name, { files: [], columns: chosenColumns(one) }))
  const output = { kind: 'inspect', sql: transform } as const
  const { lineage, isRowWise, parts } = await engine.run({ trust: 'tenant', tenant, tables, output, limits }, signal)
  const copies = copiesOf(lineage)
  if (parts === null || parts === undefined) {
    const isOne = isRowWise === true && inputs.length === 1
    return isOne && hasKey(first, first.state.primaryKey, copies, manifests) ? { kind: 'rows', input: first } : null
  }
  return wayOfParts(parts, copies, request)
}

function wayOfParts(parts: KeyedParts, copies: Copies, { inputs, manifests }: WayRequest): ChangeWay | null {
  for (const name of parts.drivers) {
    const driver = inputs.find(({ input }) => input.name === name)
    const keys = parts.groups?.map(({ column }) => column) ?? driver?.state.primaryKey ?? []
    if (driver === undefined || !hasKey(driver, keys, copies, manifests)) continue
    if (parts.groups === null && parts.tables.length === 1) return { kind: 'rows', input: driver }
    return { kind: 'keys', tables: [{ input: driver, keys }, ...joinedTo(driver, parts, inputs)] }
  }
  return null
}

/** Each table behind the one by which it is reached from the driving one. */
function joinedTo(driver: InputState, { links }: KeyedParts, inputs: readonly InputState[]): readonly JoinedTable[] {
  const reached = [driver.input.name]
  const found: JoinedTable[] = []
  for (let at = 0; at < reached.length; at += 1) {
    for (const { left, right } of links) {
      for (const [from, to] of [
        [left, right],
        [right, left],
      ] as const) {
        if (from.table !== reached[at] || reached.includes(to.table)) continue
        const input = inputs.find((one) => one.input.name === to.table) as InputState
        reached.push(to.table)
        found.push({ input, link: { parent: at, parentColumn: from.column, column: to.column } })
      }
    }
  }
  return found
}

/** By output column the column of which it is a copy. */
type Copies = ReadonlyMap<string, { readonly table: string; readonly column: string }>

function copiesOf(lineage: readonly ColumnLineage[]): Copies {
  // Which of two columns of one name is taken by it is the engine's to say.
  if (new Set(lineage.map(({ name }) => name.toLowerCase())).size < lineage.length) return new Map()
  return new Map(
    lineage.flatMap(({ name, copied }) => {
      const table = copied?.table.length === 1 ? copied.table[0] : undefined
      return copied === null || table === undefined ? [] : [[name, { table, column: copied.column }] as const]
    }),
  )
}

/** Whether the product's key is those columns of the input, each of them, as they are there. */
function hasKey(input: InputState, keys: readonly string[], copies: Copies, { output }: ManifestSet): boolean {
  const copied = output.primaryKey.map((name) => copies.get(name))
  if (keys.length !== copied.length || copied.some((one) => one?.table !== input.input.name)) return false
  return keys.every((key) => {
    const at = copied.findIndex((one) => one?.column === key)
    const typeOf = (columns: readonly { readonly name: string; readonly type: string }[], name: string | undefined) =>
      columns.find((column) => column.name === name)?.type
    return at >= 0 && typeOf(output.columns, output.primaryKey[at]) === typeOf(chosenColumns(input), key)
  })
}

async function isFilteredByRow(
  input: InputState,
  { tenant, limits, signal }: WayRequest,
  engine: Pick<Engine, 'run'>,
): Promise<boolean> {
  const { name, where } = input.input
  if (where === null) return true
  const tables = [stagedTable(name, { files: [], columns: chosenColumns(input) })]
  const output = { kind: 'inspect-condition', sql: where } as const
  return (await engine.run({ trust: 'tenant', tenant, tables, output, limits }, signal)).isRowWise === true
}
