import { Type } from 'typebox'

/**
 * The words all manifests' schemas are made of. `x-expected` completes the sentence "must be …" in a problem; it and
 * `x-hint` are annotations that other readers of the published schemas ignore.
 */

/** Bounds that keep a manifest readable, and checking one cheap. */
export const MANIFEST_LIMITS = {
  nameLength: 200,
  columnNameLength: 63,
  columns: 1000,
  inputs: 50,
  checks: 500,
  expectations: 100,
  sharingProducts: 20,
  endpoints: 20,
  followedProducts: 50,
  partitionFields: 10,
  listedColumns: 200,
  acceptedValues: 1000,
  descriptionLength: 4000,
  sqlLength: 64 * 1024,
  whereLength: 8 * 1024,
} as const

/** A closed map: a field that does not stand here is an error. */
export function closed<Properties extends Record<string, Type.TSchema>>(properties: Properties, options: object = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options })
}

/** The two fields every manifest begins with. */
export function header<Kind extends string>(kind: Kind) {
  return {
    apiVersion: Type.Literal('svc/v1', { description: 'The version of the manifest format.' }),
    kind: Type.Literal(kind, { description: 'Which of the six manifests this is.' }),
  }
}

export function oneOf<const Values extends readonly string[]>(values: Values, description: string) {
  return Type.Unsafe<Values[number]>({ type: 'string', enum: [...values], description })
}

export function text(description: string, maxLength: number = MANIFEST_LIMITS.descriptionLength) {
  return Type.String({ description, minLength: 1, maxLength })
}

export function pattern(description: string, regex: string, expected: string, maxLength = 256) {
  return Type.String({ description, pattern: regex, maxLength, 'x-expected': expected })
}

/** A column of output.yaml, by name; that it exists is checked across the files. */
export function columnName(description: string) {
  return Type.String({ description, minLength: 1, maxLength: MANIFEST_LIMITS.columnNameLength })
}

export function columnNames(description: string, minItems = 1) {
  return Type.Array(columnName('A column of output.yaml.'), {
    description,
    minItems,
    maxItems: MANIFEST_LIMITS.listedColumns,
    uniqueItems: true,
  })
}

/** One column, or a list of them. */
export function columnOrColumns(description: string) {
  return Type.Union([columnName('A column of output.yaml.'), columnNames('Columns of output.yaml.')], {
    description,
    'x-expected': 'a column name or a list of them',
  })
}

export const DURATION_PATTERN = '^[1-9][0-9]{0,5}(s|m|h|d)$'

export function duration(description: string) {
  return pattern(description, DURATION_PATTERN, 'a number and s, m, h or d, for example 24h')
}
