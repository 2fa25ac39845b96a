/** Quality rules of a contract as checks of a product; what cannot be one is told. */
import { CHECK_KINDS, DIMENSIONS } from '../../manifest/files/quality.ts'
import { DIMENSION_OF, OWN, OWN_ENGINE } from './contract.ts'
import { ownProperties, type Part } from './part.ts'

export type CheckValue = Readonly<Record<string, unknown>> & { readonly name: string }

export interface ReadRule {
  readonly check: CheckValue
  /** Where the contract says it. */
  readonly path: string
}

/**
 * @param column as output.yaml calls it; null: the rule is of the whole
 * @param nameOf what output.yaml calls a property
 */
export function checkOf(
  rule: Part,
  column: string | null,
  nameOf: (property: string) => string | null,
): ReadRule | null {
  const kind = kindOf(rule, column, nameOf)
  const name = rule.text('name') ?? rule.text('id') ?? (kind === null ? '' : `${column ?? 'rows'}_${kind.word}`)
  const common = commonOf(rule)
  rule.value('type')
  rule.value('unit')
  if (kind === null) {
    rule.say('', `"${(rule.text('name') ?? rule.text('description') ?? '').slice(0, 100)}" cannot be a check here`)
    return null
  }
  rule.end()
  return { check: { name: name.slice(0, 100) || 'rule', ...common, ...kind.fields }, path: rule.path }
}

interface Kind {
  /** For a name, where the rule has none. */
  readonly word: string
  readonly fields: Readonly<Record<string, unknown>>
}

function kindOf(rule: Part, column: string | null, nameOf: (property: string) => string | null): Kind | null {
  const type = rule.text('type') ?? 'library'
  if (type === 'custom') return ownKind(rule)
  if (type !== 'library') return null
  const metric = rule.text('metric') ?? rule.text('rule')
  const given = rule.part('arguments')
  if (metric === 'rowCount') return rowCount(rule)
  const bound = boundOf(rule)
  if (bound === null) return null
  const kind = metricKind(metric, given, column, nameOf)
  given.end()
  return kind === null ? null : { ...kind, fields: { ...kind.fields, ...bound } }
}

function metricKind(
  metric: string | null,
  given: Part,
  column: string | null,
  nameOf: (property: string) => string | null,
): Kind | null {
  if (metric === 'duplicateValues') {
    const written = given.list('properties').map(String)
    const columns = written.map(nameOf)
    if (column !== null) return { word: 'unique', fields: { unique: [column] } }
    if (columns.length === 0 || columns.includes(null)) return null
    return { word: 'unique', fields: { unique: columns } }
  }
  if (column === null) return null
  if (metric === 'nullValues') return { word: 'not_null', fields: { not_null: [column] } }
  if (metric === 'missingValues') {
    const missing = given.list('missingValues')
    return missing.every((value) => value === null) ? { word: 'not_null', fields: { not_null: [column] } } : null
  }
  if (metric !== 'invalidValues') return null
  const values = given.list('validValues')
  const pattern = given.text('pattern')
  if (values.length > 0 && pattern === null) {
    const sayable = values.filter((value) => ['string', 'number', 'boolean'].includes(typeof value))
    return sayable.length < values.length
      ? null
      : { word: 'accepted_values', fields: { accepted_values: { column, values: [...new Set(sayable)] } } }
  }
  if (pattern === null || values.length > 0) return null
  return { word: 'matches', fields: { matches: { column, pattern } } }
}

function ownKind(rule: Part): Kind | null {
  const engine = rule.text('engine')
  const implementation = rule.value('implementation')
  if (engine !== OWN_ENGINE || typeof implementation !== 'object' || implementation === null) return null
  const { threshold, ...rest } = implementation as Readonly<Record<string, unknown>>
  const [kind, ...others] = Object.keys(rest)
  if (kind === undefined || others.length > 0 || !(CHECK_KINDS as readonly string[]).includes(kind)) return null
  return { word: kind, fields: { [kind]: rest[kind], ...(threshold === undefined ? {} : { threshold }) } }
}

const OPERATORS = [
  ...['mustBe', 'mustNotBe', 'mustBeGreaterThan', 'mustBeGreaterOrEqualTo', 'mustBeLessThan', 'mustBeLessOrEqualTo'],
  ...['mustBeBetween', 'mustNotBeBetween'],
]

const operatorsOf = (rule: Part): readonly string[] => OPERATORS.filter((name) => rule.has(name))

function rowCount(rule: Part): Kind | null {
  const [operator, ...others] = operatorsOf(rule)
  if (operator === undefined || others.length > 0) return null
  const count = (fields: Readonly<Record<string, number>>): Kind | null =>
    Object.values(fields).every((rows) => Number.isSafeInteger(rows) && rows >= 0)
      ? { word: 'count', fields: { row_count: fields } }
      : null
  if (operator === 'mustBeBetween') {
    const [min, max, ...more] = rule.list(operator)
    return typeof min === 'number' && typeof max === 'number' && more.length === 0 ? count({ min, max }) : null
  }
  const rows = rule.number(operator)
  if (rows === null) return null
  switch (operator) {
    case 'mustBe':
      return count({ min: rows, max: rows })
    case 'mustBeGreaterOrEqualTo':
      return count({ min: Math.ceil(rows) })
    case 'mustBeGreaterThan':
      return count({ min: Math.floor(rows) + 1 })
    case 'mustBeLessOrEqualTo':
      return count({ max: Math.floor(rows) })
    case 'mustBeLessThan':
      return count({ max: Math.ceil(rows) - 1 })
    default:
      return null
  }
}

/** How many violations are borne; null where that cannot be said here. */
function boundOf(rule: Part): Readonly<Record<string, unknown>> | null {
  const [operator, ...others] = operatorsOf(rule)
  if (operator === undefined) {
    rule.say('', 'says no bound: none may violate it here')
    return {}
  }
  const most = others.length > 0 || operator === 'mustBeBetween' ? null : rule.number(operator)
  if (most === null || most < 0) return null
  const isPercent = rule.text('unit') === 'percent'
  const threshold = (value: number): Readonly<Record<string, unknown>> | null => {
    if (value === 0) return {}
    if (isPercent) return value <= 100 ? { threshold: `${Number(value.toFixed(6))}%` } : null
    return Number.isSafeInteger(value) ? { threshold: value } : null
  }
  switch (operator) {
    case 'mustBe':
      return most === 0 ? {} : null
    case 'mustBeLessOrEqualTo':
      return threshold(isPercent ? most : Math.floor(most))
    case 'mustBeLessThan':
      if (most === 0) return null
      if (!isPercent) return threshold(Math.ceil(most) - 1)
      rule.say(operator, `is at most ${most} % here`)
      return threshold(most)
    default:
      return null
  }
}

function commonOf(rule: Part): Readonly<Record<string, unknown>> {
  const description = rule.text('description')
  const severity = severityOf(rule)
  const dimension = dimensionOf(rule)
  const own = ownProperties(rule, [OWN.weight, OWN.onError])
  const weight = own.get(OWN.weight)
  const onError = own.get(OWN.onError)
  return {
    ...(description === null ? {} : { description: description.slice(0, 4000) }),
    ...(severity === null ? {} : { severity }),
    ...(dimension === null ? {} : { dimension }),
    ...(typeof weight === 'number' ? { weight } : {}),
    ...(typeof onError === 'string' ? { on_error: onError } : {}),
  }
}

function severityOf(rule: Part): 'error' | 'warn' | null {
  const said = rule.text('severity')?.toLowerCase()
  if (said === undefined) return null
  if (said === 'error') return 'error'
  if (said !== 'warning' && said !== 'warn')
    rule.say('severity', `"${said.slice(0, 50)}" is ${isMild(said) ? 'warn' : 'error'} here`)
  return said === 'warning' || said === 'warn' || isMild(said) ? 'warn' : 'error'
}

const isMild = (said: string): boolean => ['info', 'low', 'minor', 'notice'].includes(said)

function dimensionOf(rule: Part): string | null {
  const said = rule.text('dimension')
  if (said === null) return null
  const [ours] = Object.entries(DIMENSION_OF).find(([, theirs]) => theirs === said) ?? [said]
  if ((DIMENSIONS as readonly string[]).includes(ours)) return ours
  rule.say('dimension', `"${said.slice(0, 50)}" is none here`)
  return null
}
