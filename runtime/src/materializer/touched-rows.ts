/**
 * Of each input the rows that the product's touched keys are made of, as they were and as they are: the driving table's rows with
 * one of these keys, and of the others what joins to them. A key is touched where a row that it is, or was, made of has changed.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  copyToFile,
  type Engine,
  type EngineLimits,
  type EngineStep,
  type EngineTable,
  quoteName,
} from '@sluice/engine'
import type { ChangeWay, DrivingTable, JoinedTable } from './change-ways.ts'
import { type LakeColumn, type LakeState, stateTable } from './lake-state.ts'
import { ownRows } from './own-rows.ts'
import { stagedTable } from './staged-rows.ts'
import { chosenColumns, type InputRows } from './transform.ts'

export const SIDES = ['before', 'after'] as const
export type Side = (typeof SIDES)[number]

export interface TouchedRequest {
  readonly tables: Extract<ChangeWay, { kind: 'keys' }>['tables']
  /** Of each of `tables`, what the product's last epoch was made of. */
  readonly formers: readonly LakeState[]
  /** An empty folder, of this alone. */
  readonly directory: string
  readonly limits: EngineLimits
  readonly signal: AbortSignal
}

/** One table, by the names that the statements here call its relations. */
interface Place {
  readonly table: DrivingTable | JoinedTable
  readonly former: LakeState
  readonly columns: readonly LakeColumn[]
  readonly isChanged: boolean
  /** Places of the tables that are reached from it and of which, or of what is reached from which, rows have changed. */
  readonly live: readonly number[]
}

/** In the order of `tables`. */
export async function touchedRows(
  { tables, formers, directory, limits, signal }: TouchedRequest,
  engine: Pick<Engine, 'run'>,
): Promise<Readonly<Record<Side, readonly InputRows[]>>> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const places = placesOf(tables, formers)
  const fileOf = (side: Side, at: number) => join(directory, `${side}-${at}.parquet`)
  const steps = [
    ...[...places.keys()].reverse().flatMap((at) => touchedSteps(places, at)),
    ...SIDES.flatMap((side) => [...places.keys()].flatMap((at) => keptSteps(places, at, side, fileOf(side, at)))),
  ]
  await engine.run({ trust: 'own', tables: places.flatMap(relationsOf), steps, writeDirs: [directory], limits }, signal)
  const rowsOf = (side: Side) =>
    places.map(({ table, columns }, at) => {
      const { input } = table.input
      return { input, columns, rows: stagedTable(input.name, { files: [fileOf(side, at)], columns }) }
    })
  return { before: rowsOf('before'), after: rowsOf('after') }
}

function placesOf(tables: TouchedRequest['tables'], formers: readonly LakeState[]): readonly Place[] {
  const places: Place[] = []
  for (const at of [...tables.keys()].reverse()) {
    const table = tables[at] as DrivingTable | JoinedTable
    const former = formers[at] as LakeState
    const isChanged = former.snapshotId !== table.input.state.snapshotId
    const live = [...tables.keys()].filter((other) => {
      const { link } = tables[other] as Partial<JoinedTable>
      const place = places[other]
      return link?.parent === at && place !== undefined && (place.isChanged || place.live.length > 0)
    })
    places[at] = { table, former, columns: chosenColumns(table.input), isChanged, live }
  }
  return places
}

const stateName = (side: Side, at: number) => `${side}_${at}`
const ownName = (side: Side, at: number) => `only_${side}_${at}`
const touchedName = (at: number) => `touched_${at}`
const keptName = (side: Side, at: number) => `kept_${side}_${at}`

function relationsOf({ table, former, columns, isChanged }: Place, at: number): readonly EngineTable[] {
  const { state } = table.input
  const whole = [
    stateTable(stateName('before', at), former, columns),
    stateTable(stateName('after', at), state, columns),
  ]
  if (!isChanged) return whole
  return [
    ...whole,
    ownRows(ownName('before', at), former, state, columns),
    ownRows(ownName('after', at), state, former, columns),
  ]
}

/** The touched values of the columns by which the table is reached, or of its keys; nothing where it is reached by no change. */
function touchedSteps(places: readonly Place[], at: number): readonly EngineStep[] {
  const { table, columns, isChanged, live } = places[at] as Place
  if (at > 0 && !isChanged && live.length === 0) return []
  const names = reachedBy(table).map(quoteName).join(', ')
  const joined = live.flatMap((child) => {
    const { link } = (places[child] as Place).table as JoinedTable
    const on = `r.${quoteName(link.parentColumn)} = t.${quoteName(link.column)}`
    return SIDES.map(
      (side) => `SELECT ${names} FROM ${stateName(side, at)} r SEMI JOIN ${touchedName(child)} t ON ${on}`,
    )
  })
  const found = [...(isChanged ? changed(at, names, columns) : []), ...joined]
  const rows =
    found.length === 0 ? `SELECT ${names} FROM ${stateName('after', at)} WHERE false` : found.join(' UNION ALL ')
  return [{ sql: `CREATE TEMP TABLE ${touchedName(at)} AS SELECT DISTINCT ${names} FROM (${rows})` }]
}

const reachedBy = (table: DrivingTable | JoinedTable): readonly string[] =>
  'keys' in table ? table.keys : [table.link.column]

/** Rows that lie elsewhere and say the same are no others: a file of few rows is written anew for any of them. */
function changed(at: number, names: string, columns: readonly LakeColumn[]): readonly string[] {
  const cells = columns.map(({ name }) => quoteName(name)).join(', ')
  const rowsOf = (side: Side) => `SELECT ${cells} FROM ${ownName(side, at)}`
  return [
    `SELECT ${names} FROM (${rowsOf('before')} EXCEPT ALL ${rowsOf('after')})`,
    `SELECT ${names} FROM (${rowsOf('after')} EXCEPT ALL ${rowsOf('before')})`,
  ]
}

/** The table's rows that are of touched keys, in a file for the transform. */
function keptSteps(places: readonly Place[], at: number, side: Side, file: string): readonly EngineStep[] {
  const { table, columns } = places[at] as Place
  const names = columns.map(({ name }) => `r.${quoteName(name)}`).join(', ')
  const [by, on] =
    'keys' in table
      ? [
          touchedName(at),
          table.keys.map((key) => `r.${quoteName(key)} IS NOT DISTINCT FROM t.${quoteName(key)}`).join(' AND '),
        ]
      : [
          keptName(side, table.link.parent),
          `r.${quoteName(table.link.column)} = t.${quoteName(table.link.parentColumn)}`,
        ]
  const kept = keptName(side, at)
  return [
    { sql: `CREATE TEMP TABLE ${kept} AS SELECT ${names} FROM ${stateName(side, at)} r SEMI JOIN ${by} t ON ${on}` },
    { sql: copyToFile(`SELECT * FROM ${kept}`, columns, file) },
  ]
}
