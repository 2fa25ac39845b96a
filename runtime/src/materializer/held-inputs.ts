/** The inputs of a product as their contracts let it have them: without rows that do not fit, and in the columns of before. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { copyToFile, lossCondition, quoteName, sqlType } from '@sluice/engine'
import { SluiceError } from '@sluice/sdk'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { stepOf } from '../quality/carried-rows.ts'
import { exceeds, MAX_REJECTED } from '../quality/max-rejected.ts'
import { MAX_QUARANTINED } from '../registry/quarantine.ts'
import { brokenContract, type ContractTerms, type RetypedColumn, type RowTerm } from './contract-terms.ts'
import type { AsideRow, InputState } from './input-state.ts'
import { stateTable } from './lake-state.ts'
import type { TransformDeps } from './transform-deps.ts'

type HeldDeps = Pick<TransformDeps, 'engine' | 'ownLimits' | 'directory' | 'signal'>

/**
 * Throws INVALID_DATA `source_schema_changed` where a row cannot be had in the shape that the contract keeps, and
 * `too_many_rejected` where more are put aside than the product bears with.
 */
export async function heldInputs(
  inputs: readonly InputState[],
  manifests: Pick<ManifestSet, 'quality'>,
  deps: HeldDeps,
): Promise<readonly InputState[]> {
  const held: InputState[] = []
  for (const input of inputs) held.push(input.terms ? await heldInput(input, input.terms, manifests, deps) : input)
  return held
}

async function heldInput(
  one: InputState,
  terms: ContractTerms,
  { quality }: Pick<ManifestSet, 'quality'>,
  deps: HeldDeps,
): Promise<InputState> {
  const { input, state } = one
  const { columns, retyped, rows } = terms
  const asGiven = { ...state, columns }
  const told = terms.changes === '' ? [] : [`the input "${input.name}" is held to its contract: ${terms.changes}`]
  if (state.files.length === 0 || retyped.length + rows.length === 0) {
    return { ...one, state: asGiven, held: { notes: told, aside: [], isWritten: false } }
  }
  const rules = rulesOf(terms)
  const counts = await counted(one, terms, rules, deps)
  const misfits = rules.filter(({ word }, index) => word === 'fail' && (counts.rules[index] as number) > 0)
  if (misfits.length > 0) {
    const text = misfits.map(({ column, reason }) => `${column}: ${reason}`).join('; ')
    throw brokenContract(
      input,
      text,
      misfits.map(({ kind }) => terms.said[kind]),
    )
  }
  const { aside } = counts
  const limit = quality.maxRejected ?? MAX_REJECTED
  if (exceeds(aside, state.rowCount, limit)) throw tooManyAside(input.name, limit)
  const notes = [...told, ...countNotes(input.name, rules, counts.rules)]
  if (aside === 0 && retyped.length === 0) {
    return { ...one, state: asGiven, held: { notes, aside: [], isWritten: false } }
  }
  const { file, rows: first } = await written(one, terms, rules, aside > 0, deps)
  const { deletes: _, ...kept } = asGiven
  return {
    ...one,
    leftOut: (one.leftOut ?? 0) + aside,
    state: { ...kept, files: [file], rowCount: state.rowCount - aside },
    held: { notes, aside: first, isWritten: true },
  }
}

interface Rule {
  readonly column: string
  readonly kind: 'columns' | 'types' | 'nullability'
  readonly word: 'fail' | 'quarantine_row' | 'null_value'
  /** SQL that holds for rows that break it; never null. */
  readonly condition: string
  /** Without a value. */
  readonly reason: string
}

function rulesOf({ rows, retyped }: ContractTerms): readonly Rule[] {
  return [...rows.map(ruleOfRows), ...retyped.map(ruleOfType)]
}

function ruleOfRows({ column, kind, word }: RowTerm): Rule {
  return kind === 'unknown'
    ? {
        ...{ column, word, kind: 'columns', condition: `${quoteName(column)} IS NOT NULL` },
        reason: 'it has a value, and the contract does not know the column',
      }
    : {
        ...{ column, word, kind: 'nullability', condition: `${quoteName(column)} IS NULL` },
        reason: 'it has no value, and had to have one',
      }
}

function ruleOfType(retyped: RetypedColumn): Rule {
  const { name: column, from, to, word } = retyped
  return {
    ...{ column, kind: 'types', word: word === 'freeze' ? 'fail' : word, condition: misfit(retyped) },
    reason: `a value of type ${from} does not fit ${to} without loss`,
  }
}

/** The parts are looked at one after the other: none casts what cannot be cast. */
function misfit({ name, from, to }: RetypedColumn): string {
  const value = quoteName(name)
  const loses = lossCondition(value, from, sqlType(from), to)
  const lossy = loses === null ? '' : ` WHEN ${loses} THEN true`
  return `CASE WHEN ${value} IS NULL THEN false WHEN ${cast(name, to)} IS NULL THEN true${lossy} ELSE false END`
}

const cast = (name: string, to: RetypedColumn['to']) => `TRY_CAST(${quoteName(name)} AS ${sqlType(to)})`

const HELD = '__held'

/** The table with all that it has, and null for what it has no more. */
function heldTable({ state }: InputState, { whole, columns }: ContractTerms) {
  const absent = columns.filter(({ name }) => !whole.some((column) => column.name === name))
  return stateTable(HELD, state, [...whole, ...absent])
}

const anyOf = (rules: readonly Rule[]) =>
  rules
    .filter(({ word }) => word === 'quarantine_row')
    .map(({ condition }) => `(${condition})`)
    .join(' OR ') || 'false'

interface Counts {
  /** Rows that break each rule. */
  readonly rules: readonly number[]
  readonly aside: number
}

async function counted(
  one: InputState,
  terms: ContractTerms,
  rules: readonly Rule[],
  { engine, ownLimits, signal }: HeldDeps,
): Promise<Counts> {
  const conditions = [...rules.map(({ condition }) => condition), anyOf(rules)]
  const counts = conditions.map((condition) => `count(*) FILTER (WHERE ${condition})`)
  const steps = [{ sql: `SELECT ${counts.join(', ')} FROM ${quoteName(HELD)}`, rows: 'collect' as const }]
  const tables = [heldTable(one, terms)]
  const { results } = await engine.run({ trust: 'own', tables, steps, limits: ownLimits }, signal)
  const [found = []] = results[0]?.rows ?? []
  return { rules: rules.map((_, index) => Number(found[index])), aside: Number(found[rules.length]) }
}

/** Of all that is kept of one row. */
const MAX_RAW_CHARACTERS = 16 * 1024

async function written(
  one: InputState,
  terms: ContractTerms,
  rules: readonly Rule[],
  isAside: boolean,
  { engine, ownLimits, directory, signal }: HeldDeps,
): Promise<{ readonly file: string; readonly rows: readonly AsideRow[] }> {
  const dir = join(directory, `held-${one.input.name}`)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const file = join(dir, 'rows.parquet')
  const aside = rules.filter(({ word }) => word === 'quarantine_row')
  const key = one.state.primaryKey.filter((name) => terms.whole.some((column) => column.name === name))
  const { results } = await engine.run(
    {
      trust: 'own',
      tables: [heldTable(one, terms)],
      steps: [
        { sql: copyStatement(terms, rules, file) },
        ...(isAside
          ? [
              {
                sql: asideStatement(terms, aside, key),
                rows: 'collect' as const,
                textCharacters: MAX_RAW_CHARACTERS,
              },
            ]
          : []),
      ],
      writeDirs: [dir],
      limits: ownLimits,
    },
    signal,
  )
  return { file, rows: bounded((results[0]?.rows ?? []).map((cells) => asideRow(cells, aside, key))) }
}

function copyStatement({ columns, retyped }: ContractTerms, rules: readonly Rule[], file: string): string {
  const as = new Map(retyped.map((one) => [one.name, one]))
  const values = columns.map(({ name }) => {
    const one = as.get(name)
    if (one === undefined) return quoteName(name)
    const value = cast(name, one.to)
    const given = one.word === 'null_value' ? `CASE WHEN ${misfit(one)} THEN NULL ELSE ${value} END` : value
    return `${given} AS ${quoteName(name)}`
  })
  const rows = `SELECT ${values.join(', ')} FROM ${quoteName(HELD)} WHERE NOT (${anyOf(rules)})`
  return copyToFile(rows, columns, file)
}

/** The first rule that a row breaks, its key, and all its values. */
function asideStatement({ whole }: ContractTerms, aside: readonly Rule[], key: readonly string[]): string {
  const which = aside.map(({ condition }, index) => `WHEN ${condition} THEN ${index}`).join(' ')
  const keys = key.map((name) => `, CAST(${quoteName(name)} AS VARCHAR)`).join('')
  const values = whole.map(({ name }) => `${quoteName(name)} := ${quoteName(name)}`).join(', ')
  return `SELECT CASE ${which} END${keys}, CAST(to_json(struct_pack(${values})) AS VARCHAR)
    FROM ${quoteName(HELD)} WHERE ${anyOf(aside)} LIMIT ${MAX_QUARANTINED.rows}`
}

function asideRow(cells: readonly unknown[], aside: readonly Rule[], key: readonly string[]): AsideRow {
  const { column, reason } = aside[Number(cells[0])] as Rule
  const textOf = (cell: unknown) => (cell === null || cell === undefined ? null : String(cell))
  const texts = key.map((name, index) => [name, textOf(cells[index + 1])] as const)
  return {
    column,
    reason,
    key: key.length === 0 ? null : Object.fromEntries(texts),
    raw: textOf(cells[key.length + 1]),
  }
}

function bounded(rows: readonly AsideRow[]): readonly AsideRow[] {
  let bytes = 0
  return rows.filter((row) => {
    bytes += Buffer.byteLength(JSON.stringify(row))
    return bytes <= MAX_QUARANTINED.bytes
  })
}

/** Runs are read by who may not read the table: how many rows it is, they are told in steps. */
function countNotes(name: string, rules: readonly Rule[], counts: readonly number[]): readonly string[] {
  return rules.flatMap(({ column, word }, index) => {
    const most = stepOf(counts[index] as number)
    if (most === 0) return []
    return word === 'null_value'
      ? [`the contract of the input "${name}" has made null at most ${most} values of ${column}`]
      : [`the contract of the input "${name}" has put aside at most ${most} rows, for ${column}`]
  })
}

/** Says of no column how many rows it is. */
function tooManyAside(
  name: string,
  { percent, rows }: { readonly percent: number; readonly rows: number },
): SluiceError {
  return new SluiceError(
    'INVALID_DATA',
    `more than ${percent} % and more than ${rows} rows of the input "${name}" do not fit its schema_contract`,
    {
      code: 'too_many_rejected',
      remedy:
        'Correct the rows at the source and sync, deploy a version that takes the table as it is, or allow more with max_rejected in quality.yaml. The product is as it was.',
    },
  )
}
