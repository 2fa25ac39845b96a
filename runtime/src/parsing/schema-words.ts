/**
 * What does not fit a JSON Schema, in words: for whoever sent it, who knows neither the schema nor the library. Neither
 * the value nor a pattern is repeated.
 */

/** As the library reports it. */
export interface SchemaFault {
  readonly keyword: string
  /** Where in the schema: `#/properties/name`. */
  readonly schemaPath: string
  readonly params: unknown
}

const TYPES: Readonly<Record<string, string>> = {
  object: 'an object',
  array: 'a list',
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  null: 'null',
}

/** The end of a sentence that begins with the name of what is at fault: `must be at least 1`. */
export function faultWords(fault: SchemaFault, schema: unknown): string {
  const params = fault.params as Readonly<Record<string, unknown>>
  switch (fault.keyword) {
    case 'type':
      return `must be ${[params['type']].flat().map(typeWords).join(' or ')}`
    case 'enum':
      return `must be one of ${listed(params['allowedValues'])}`
    case 'const':
      return `must be ${listed([params['allowedValue']])}`
    case 'required':
      return `lacks ${listed(params['requiredProperties'])}`
    case 'pattern':
      return `must be ${expectedIn(schemaAt(schema, fault.schemaPath))}`
    case 'format':
      return `must be a ${String(params['format'])}`
    case 'anyOf':
    case 'oneOf':
      return formsWords(schemaAt(schema, fault.schemaPath))
    default:
      return limitWords(fault) ?? 'has none of the allowed forms'
  }
}

/** What it may be, of several forms: in the schema's own words, or by the kinds of value that it names. */
function formsWords(schema: Readonly<Record<string, unknown>>): string {
  if (typeof schema['x-expected'] === 'string') return `must be ${schema['x-expected']}`
  const kinds = [...new Set(kindsOf(schema))]
  return kinds.length === 0 ? 'has none of the allowed forms' : `must be ${kinds.join(' or ')}`
}

function kindsOf({ anyOf, oneOf, type, const: only }: Readonly<Record<string, unknown>>): readonly string[] {
  const forms = anyOf ?? oneOf
  if (Array.isArray(forms)) return forms.flatMap((form) => kindsOf(form as Readonly<Record<string, unknown>>))
  if (only !== undefined) return [String(only)]
  return type === undefined ? [] : [typeWords(type)]
}

/** Of keywords that bound a number, a length or a count; null of any other. */
export function limitWords({ keyword, params }: Pick<SchemaFault, 'keyword' | 'params'>): string | null {
  const { limit } = params as { readonly limit?: number }
  switch (keyword) {
    case 'minimum':
      return `must be at least ${limit}`
    case 'maximum':
      return `must be at most ${limit}`
    case 'exclusiveMinimum':
      return `must be more than ${limit}`
    case 'exclusiveMaximum':
      return `must be less than ${limit}`
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must have at least ${limit} characters`
    case 'maxLength':
      return `must have at most ${limit} characters`
    case 'minItems':
      return limit === 1 ? 'must name at least one' : `must have at least ${limit} entries`
    case 'maxItems':
      return `must have at most ${limit} entries`
    case 'uniqueItems':
      return 'must not name the same twice'
    case 'minProperties':
      return limit === 1 ? 'must have at least one member' : `must have at least ${limit} members`
    case 'maxProperties':
      return `must have at most ${limit} members`
    default:
      return null
  }
}

/** What a text of a certain form is, by the schema's own words. */
export function expectedIn({
  'x-expected': expected,
  description,
  examples,
}: Readonly<Record<string, unknown>>): string {
  if (typeof expected === 'string') return expected
  const about = typeof description === 'string' ? `as described: ${description}` : 'of another form'
  return Array.isArray(examples) ? `${about.replace(/\.$/, '')}, as ${listed(examples)}` : about
}

const typeWords = (type: unknown): string => TYPES[String(type)] ?? String(type)

const listed = (values: unknown): string => (Array.isArray(values) ? values.map(String).join(', ') : '')

function schemaAt(root: unknown, pointer: string): Readonly<Record<string, unknown>> {
  let node = root
  for (const step of pointer.split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    node = typeof node === 'object' && node !== null ? (node as Record<string, unknown>)[key] : undefined
  }
  return typeof node === 'object' && node !== null ? (node as Record<string, unknown>) : {}
}
