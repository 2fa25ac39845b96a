import { anomalyFindings, anomalyRule } from './check-anomaly.ts'
import { EXPECTED, expectationsOf } from './check-expectations.ts'
import type { InputsDraft } from './check-inputs.ts'
import { NEW_VERSION, newVersionOf } from './check-new-version.ts'
import { type CheckedFile, type Draft, type Item, repeated } from './checked-file.ts'
import type { Columns } from './columns.ts'
import type { ManifestContext } from './context.ts'
import { parseDuration } from './durations.ts'
import { CHECK_KINDS, type CheckFields, type CheckKind, DIMENSIONS, TELLS } from './files/quality.ts'
import type { Check, Dimension, Metric, OnError, QualityManifest, Rule, Scalar } from './manifest-set.ts'
import { isTimeType } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'
import { typedValue } from './scalar-values.ts'
import { thresholdOf } from './thresholds.ts'
import { usedChecks } from './used-checks.ts'

/** What checks may name; null where that file could not be read. */
export interface CheckContext {
  readonly columns: Columns | null
  readonly aliases: ReadonlySet<string> | null
  /** As the context has them. */
  readonly sharedChecks?: ManifestContext['sharedChecks']
  /** The product itself: `namespace.name`. */
  readonly own?: string
  /** Absent: they could not be read. */
  readonly inputs?: Pick<InputsDraft, 'value' | 'sources'>
}

/** quality.yaml with its defaults. */
export function readQuality(file: CheckedFile, context: CheckContext): Draft<QualityManifest> {
  const onError = file.get<OnError>('on_error') ?? 'block'
  const items = file.items<CheckFields>('checks')
  const findings: Finding[] = repeated(items, (check) => check.name).map((item) => ({
    manifest: 'quality',
    path: [...item.path, 'name'],
    message: `the check "${item.value.name}" stands here twice`,
  }))
  findings.push(...ownNames(items))
  const checks: Check[] = []
  for (const item of items) {
    const kind = kindOf(item.path, item.value, findings)
    const rule = kind === null ? null : ruleOf(kind, item.value)
    if (kind === null || rule === null) continue
    const check = checkOf(item.value, rule, onError)
    checks.push(check)
    findings.push(...ruleFindings([...item.path, kind], rule, item.value, context), ...consequenceFindings(item, check))
  }
  const compared = newVersionOf(file, context.columns)
  findings.push(...compared.findings)
  const expected = expectationsOf(file, context, (path, fields, columns) => {
    const kind = kindOf(path, fields, findings)
    const rule = kind === null ? null : ruleOf(kind, fields)
    if (kind === null || rule === null) return null
    const check = checkOf(fields, rule, 'block')
    findings.push(...ruleFindings([...path, kind], rule, fields, { columns, aliases: null }))
    findings.push(...consequenceFindings({ path, value: fields }, check))
    return check
  })
  const used = usedChecks(file, checks, context, (rule) => ruleFindings([], rule, writtenAs(rule), context))
  const uses = used.uses.length === 0 ? {} : { uses: used.uses }
  return {
    value: {
      checks: [...checks, ...used.checks],
      ...uses,
      ...compared.value,
      ...expected.value,
      ...maxRejectedOf(file),
    },
    findings: [...findings, ...expected.findings, ...used.findings],
  }
}

function kindOf(path: Path, value: Partial<CheckFields>, findings: Finding[]): CheckKind | null {
  const kinds = CHECK_KINDS.filter((kind) => value[kind] !== undefined)
  if (kinds.length !== 1) findings.push(notOneKind(path, kinds))
  return kinds.length === 1 ? (kinds[0] as CheckKind) : null
}

const TAKEN: Readonly<Record<string, string>> = {
  [NEW_VERSION]: 'the bounds of new versions',
  [EXPECTED]: 'what other products expect of this one',
}

/** Names under which something else is told beside the checks. */
function ownNames(items: readonly Item<CheckFields>[]): readonly Finding[] {
  return items.flatMap(({ path, value }) =>
    Object.entries(TAKEN)
      .filter(([start]) => value.name.startsWith(start))
      .map(([start, what]) => ({
        manifest: 'quality' as const,
        path: [...path, 'name'],
        message: `names that begin with "${start}" are those of ${what}`,
      })),
  )
}

/** What findings about a rule look at besides the rule, of one that nobody wrote here. */
function writtenAs(rule: Rule): Partial<CheckFields> {
  if (rule.kind === 'not_null' || rule.kind === 'unique') return { [rule.kind]: [...rule.columns] }
  if (rule.kind === 'references') return { references: { columns: [...rule.columns], input: rule.input } }
  return rule.kind === 'anomaly' && rule.column !== null
    ? { anomaly: { metric: rule.metric, column: rule.column } }
    : {}
}

function maxRejectedOf(file: CheckedFile): Pick<QualityManifest, 'maxRejected'> {
  const said = file.get<{ readonly share?: string; readonly rows?: number }>('max_rejected')
  if (said === undefined) return {}
  const { share = '0.1%', rows = 100 } = said
  return { maxRejected: { percent: Number.parseFloat(share), rows } }
}

function notOneKind(path: Path, kinds: readonly CheckKind[]): Finding {
  const message =
    kinds.length === 0
      ? 'the check does not say what it checks'
      : `a check checks one thing, not ${kinds.join(' and ')}`
  const hint = kinds.length === 0 ? `Add one of ${CHECK_KINDS.join(', ')}.` : 'Make it several checks.'
  return { manifest: 'quality', path, message, hint }
}

const DIMENSION_OF: Readonly<Record<Exclude<CheckKind, 'anomaly'>, Dimension>> = {
  sql: 'validity',
  not_null: 'completeness',
  unique: 'uniqueness',
  accepted_values: 'validity',
  range: 'validity',
  matches: 'validity',
  references: 'consistency',
  row_count: 'completeness',
  freshness: 'timeliness',
  schema: 'validity',
}

const DIMENSION_OF_METRIC: Readonly<Record<Metric, Dimension>> = {
  row_count: 'completeness',
  null_share: 'completeness',
  distinct: 'consistency',
  drift: 'consistency',
}

function dimensionOf(rule: Rule): Dimension {
  return rule.kind === 'anomaly' ? DIMENSION_OF_METRIC[rule.metric] : DIMENSION_OF[rule.kind]
}

function checkOf(fields: CheckFields, rule: Rule, onError: OnError): Check {
  return {
    name: fields.name,
    description: fields.description ?? '',
    severity: fields.severity ?? 'error',
    dimension: DIMENSIONS.find((dimension) => dimension === fields.dimension) ?? dimensionOf(rule),
    weight: fields.weight ?? 1,
    threshold: thresholdOf(fields.threshold),
    onError: fields.on_error ?? (onError === 'quarantine' && TELLS[rule.kind] !== 'which rows' ? 'block' : onError),
    rule,
  }
}

function list(columns: string | readonly string[]): readonly string[] {
  return typeof columns === 'string' ? [columns] : columns
}

function ruleOf(kind: CheckKind, fields: CheckFields): Rule | null {
  switch (kind) {
    case 'sql':
      return fields.sql === undefined ? null : { kind, sql: fields.sql }
    case 'not_null':
    case 'unique': {
      const columns = fields[kind]
      return columns === undefined ? null : { kind, columns: list(columns) }
    }
    case 'accepted_values':
      return fields.accepted_values === undefined ? null : { kind, ...fields.accepted_values }
    case 'range': {
      const { range } = fields
      if (range === undefined) return null
      const { column, min = null, max = null, exclusive = false } = range
      return { kind, column, min, max, exclusive }
    }
    case 'matches':
      return fields.matches === undefined ? null : { kind, ...fields.matches }
    default:
      return tableRuleOf(kind, fields)
  }
}

function tableRuleOf(
  kind: 'references' | 'row_count' | 'freshness' | 'schema' | 'anomaly',
  fields: CheckFields,
): Rule | null {
  const { references, row_count: rowCount, freshness, schema, anomaly } = fields
  if (kind === 'anomaly' && anomaly !== undefined) return anomalyRule(anomaly)
  if (kind === 'references' && references !== undefined) {
    const columns = list(references.columns)
    return { kind, columns, input: references.input, inputColumns: list(references.input_columns ?? columns) }
  }
  if (kind === 'row_count' && rowCount !== undefined) {
    return { kind, min: rowCount.min ?? null, max: rowCount.max ?? null }
  }
  if (kind === 'freshness' && freshness !== undefined) {
    return { kind, column: freshness.column, maxAgeMs: parseDuration(freshness.max_age) ?? 0 }
  }
  if (kind === 'schema' && schema !== undefined) {
    return { kind, input: schema.input ?? null, columns: schema.columns, exact: schema.exact ?? false }
  }
  return null
}

/** What a rule names must exist and fit. */
function ruleFindings(
  path: Path,
  rule: Rule,
  written: Partial<CheckFields>,
  context: CheckContext,
): readonly Finding[] {
  const { columns, aliases } = context
  switch (rule.kind) {
    case 'not_null':
    case 'unique':
      return columns?.missingOf('quality', path, written[rule.kind] ?? []) ?? []
    case 'accepted_values':
      return [
        ...(columns?.missing('quality', [...path, 'column'], rule.column) ?? []),
        ...rule.values.flatMap((value, index) => misfit([...path, 'values', index], rule.column, value, columns)),
      ]
    case 'range':
      return rangeFindings(path, rule, columns)
    case 'matches':
      return matchesFindings(path, rule, columns)
    case 'references':
      return referenceFindings(path, rule, written, context)
    case 'row_count':
      return rowCountFindings(path, rule)
    case 'freshness':
      return freshnessFindings([...path, 'column'], rule.column, columns)
    case 'schema':
      return rule.input === null ? [] : aliasFindings([...path, 'input'], rule.input, aliases)
    case 'anomaly':
      return anomalyFindings(path, rule, written.anomaly, columns)
    case 'sql':
      return []
  }
}

function misfit(path: Path, column: string, value: Scalar, columns: Columns | null): readonly Finding[] {
  const type = columns?.get(column)?.type
  if (type === undefined || typedValue(value, type) !== null) return []
  const hint = type === 'binary' || type === 'json' ? 'Write a check with sql.' : `"${column}" is of type ${type}.`
  return [{ manifest: 'quality', path, message: `the value is none of type ${type}`, hint }]
}

function rangeFindings(path: Path, rule: Rule & { kind: 'range' }, columns: Columns | null): readonly Finding[] {
  const findings = [...(columns?.missing('quality', [...path, 'column'], rule.column) ?? [])]
  if (rule.min === null && rule.max === null) {
    findings.push({ manifest: 'quality', path, message: 'a range needs min, max or both' })
  }
  const type = columns?.get(rule.column)?.type
  if (type === 'boolean') {
    findings.push({ manifest: 'quality', path: [...path, 'column'], message: 'true and false have no range' })
    return findings
  }
  if (rule.min !== null) findings.push(...misfit([...path, 'min'], rule.column, rule.min, columns))
  if (rule.max !== null) findings.push(...misfit([...path, 'max'], rule.column, rule.max, columns))
  const empty = typeof rule.min === 'number' && typeof rule.max === 'number' && rule.min > rule.max
  if (empty) findings.push({ manifest: 'quality', path: [...path, 'max'], message: 'max is less than min' })
  return findings
}

/** RE2 answers in time linear to the text because it has neither; better said here than by the engine. */
const NOT_IN_RE2 = /\(\?(=|!|<=|<!)|\\[1-9]/

function matchesFindings(path: Path, rule: Rule & { kind: 'matches' }, columns: Columns | null): readonly Finding[] {
  const findings = [...(columns?.missing('quality', [...path, 'column'], rule.column) ?? [])]
  const type = columns?.get(rule.column)?.type
  if (type !== undefined && type !== 'string') {
    const message = `a pattern fits columns of type string, and "${rule.column}" is of type ${type}`
    findings.push({ manifest: 'quality', path: [...path, 'column'], message })
  }
  if (NOT_IN_RE2.test(rule.pattern)) {
    const message = 'the pattern looks around or back, which RE2 cannot'
    findings.push({ manifest: 'quality', path: [...path, 'pattern'], message })
  }
  return findings
}

function referenceFindings(
  path: Path,
  rule: Rule & { kind: 'references' },
  written: Partial<CheckFields>,
  { columns, aliases }: CheckContext,
): readonly Finding[] {
  const findings = [
    ...(columns?.missingOf('quality', [...path, 'columns'], written.references?.columns ?? []) ?? []),
    ...aliasFindings([...path, 'input'], rule.input, aliases),
  ]
  if (rule.columns.length !== rule.inputColumns.length) {
    const message = `${rule.columns.length} columns cannot refer to ${rule.inputColumns.length}`
    findings.push({ manifest: 'quality', path: [...path, 'input_columns'], message })
  }
  return findings
}

function aliasFindings(path: Path, alias: string, aliases: ReadonlySet<string> | null): readonly Finding[] {
  if (aliases === null || aliases.has(alias)) return []
  const message = `inputs.yaml has no input "${alias}"`
  return [{ manifest: 'quality', path, message, unknown: { name: alias, among: aliases } }]
}

function rowCountFindings(path: Path, rule: Rule & { kind: 'row_count' }): readonly Finding[] {
  if (rule.min === null && rule.max === null) {
    return [{ manifest: 'quality', path, message: 'a row count needs min, max or both' }]
  }
  const empty = rule.min !== null && rule.max !== null && rule.min > rule.max
  return empty ? [{ manifest: 'quality', path: [...path, 'max'], message: 'max is less than min' }] : []
}

function freshnessFindings(path: Path, column: string, columns: Columns | null): readonly Finding[] {
  const type = columns?.get(column)?.type
  if (type === undefined) return columns?.missing('quality', path, column) ?? []
  if (isTimeType(type)) return []
  const message = `freshness needs a date or timestamp, and "${column}" is of type ${type}`
  return [{ manifest: 'quality', path, message }]
}

/** What follows from a failure must be possible for that kind of check. */
function consequenceFindings({ path, value }: Item<CheckFields>, check: Check): readonly Finding[] {
  const findings: Finding[] = []
  if (value.on_error === 'quarantine' && TELLS[check.rule.kind] !== 'which rows') {
    const message = `${check.rule.kind} does not say which rows are bad, so none can be put aside`
    findings.push({ manifest: 'quality', path: [...path, 'on_error'], message, hint: 'Use block or publish.' })
  }
  if (value.threshold !== undefined && TELLS[check.rule.kind] === 'whether') {
    const message = `${check.rule.kind} holds or does not, so it has no threshold`
    findings.push({ manifest: 'quality', path: [...path, 'threshold'], message, hint: 'Remove it.' })
  }
  return findings
}
