/** Checks of a product as quality rules of a contract. */
import { CHECK_KINDS, type CheckFields, type CheckKind, type QualityFile, TELLS } from '../../manifest/files/quality.ts'
import { type ContractRule, DIMENSION_OF, OWN, OWN_ENGINE } from './contract.ts'

export interface WrittenRules {
  /** Of the whole, and by the column that each is about. */
  readonly ofSchema: readonly ContractRule[]
  readonly ofColumn: ReadonlyMap<string, readonly ContractRule[]>
  readonly lost: readonly string[]
}

/** @param aliases of the inputs: what a contract does not tell of */
export function writtenRules(quality: QualityFile, aliases: readonly string[]): WrittenRules {
  const ofSchema: ContractRule[] = []
  const ofColumn = new Map<string, ContractRule[]>()
  const lost: string[] = []
  for (const [index, check] of (quality.checks ?? []).entries()) {
    const why = whyKept(check, aliases)
    if (why !== null) {
      lost.push(`quality.yaml: checks[${index}] "${check.name}": ${why}`)
      continue
    }
    for (const { column, rule } of rulesOf(check)) {
      const whole = { ...common(check, quality.on_error), ...rule }
      if (column === null) ofSchema.push(whole)
      else ofColumn.set(column, [...(ofColumn.get(column) ?? []), whole])
    }
  }
  for (const [index, { product }] of (quality.uses ?? []).entries()) {
    lost.push(`quality.yaml: uses[${index}]: the checks are those of ${product}, whose contract has them`)
  }
  return { ofSchema, ofColumn, lost }
}

function whyKept({ references, schema, sql }: CheckFields, aliases: readonly string[]): string | null {
  const why = 'it is about an input, and a contract does not say what the product is made of'
  if (references !== undefined || schema?.input !== undefined) return why
  const words = new Set((sql ?? '').toLowerCase().split(/[^\p{L}\p{N}_]+/u))
  return aliases.some((alias) => words.has(alias.toLowerCase())) ? why : null
}

interface Placed {
  /** Null: of the whole. */
  readonly column: string | null
  readonly rule: ContractRule
}

const listOf = (columns: string | readonly string[]): readonly string[] =>
  typeof columns === 'string' ? [columns] : columns

function rulesOf(check: CheckFields): readonly Placed[] {
  const bound = boundOf(check.threshold)
  const ofColumn = (column: string, rule: ContractRule): Placed => ({ column, rule: { ...rule, ...bound } })
  if (check.not_null !== undefined) {
    // One of each; what is one check is known again by its name.
    return listOf(check.not_null).map((column) => ofColumn(column, { metric: 'nullValues' }))
  }
  if (check.unique !== undefined) {
    const columns = listOf(check.unique)
    const [only = ''] = columns
    if (columns.length === 1) return [ofColumn(only, { metric: 'duplicateValues' })]
    return [{ column: null, rule: { metric: 'duplicateValues', arguments: { properties: columns }, ...bound } }]
  }
  if (check.accepted_values !== undefined) {
    const { column, values } = check.accepted_values
    return [ofColumn(column, { metric: 'invalidValues', arguments: { validValues: values } })]
  }
  if (check.matches !== undefined) {
    const { column, pattern } = check.matches
    return [ofColumn(column, { metric: 'invalidValues', arguments: { pattern } })]
  }
  if (check.row_count !== undefined)
    return [{ column: null, rule: { metric: 'rowCount', ...countOf(check.row_count) } }]
  const kind = kindOf(check)
  const threshold = check.threshold === undefined ? {} : { threshold: check.threshold }
  const implementation = { [kind]: check[kind], ...threshold }
  return [{ column: null, rule: { type: 'custom', engine: OWN_ENGINE, implementation } }]
}

const kindOf = (check: CheckFields) => CHECK_KINDS.find((name) => check[name] !== undefined) as CheckKind

function boundOf(threshold: CheckFields['threshold']): ContractRule {
  if (threshold === undefined || threshold === 0) return { mustBe: 0 }
  if (typeof threshold === 'number') return { mustBeLessOrEqualTo: threshold, unit: 'rows' }
  return { mustBeLessOrEqualTo: Number.parseFloat(threshold), unit: 'percent' }
}

function countOf({ min, max }: NonNullable<CheckFields['row_count']>): ContractRule {
  if (min === undefined) return { mustBeLessOrEqualTo: max as number }
  if (max === undefined) return { mustBeGreaterOrEqualTo: min }
  return min === max ? { mustBe: min } : { mustBeBetween: [min, max] }
}

function common(check: CheckFields, onError: QualityFile['on_error']): ContractRule {
  const { name, description, dimension, severity, weight } = check
  const saysRows = TELLS[kindOf(check)] === 'which rows'
  // Where the file asks for quarantine, what does not say which rows are bad blocks.
  const consequence = check.on_error ?? (onError === 'quarantine' && !saysRows ? 'block' : onError)
  const own = [
    ...(weight === undefined ? [] : [{ property: OWN.weight, value: weight }]),
    ...(consequence === undefined ? [] : [{ property: OWN.onError, value: consequence }]),
  ]
  return {
    name,
    ...(description === undefined || description === '' ? {} : { description }),
    ...(dimension === undefined ? {} : { dimension: DIMENSION_OF[dimension] ?? dimension }),
    ...(severity === undefined ? {} : { severity: severity === 'warn' ? 'warning' : severity }),
    ...(own.length === 0 ? {} : { customProperties: own }),
  }
}
