/**
 * Trino's questions, in the words of its Open Policy Agent protocol. What is not listed is nobody's: writes, procedures,
 * functions, impersonation, settings, and the tables behind `$`.
 */
import { type PolicyProtocol, type PolicyQuestion, type PolicyRequest, SluiceError } from '@sluice/sdk'

interface Table {
  readonly catalogName: string
  readonly schemaName: string
  readonly tableName: string
}

interface Resource {
  readonly catalog?: { readonly name: string }
  readonly schema?: { readonly catalogName: string; readonly schemaName: string }
  readonly table?: Table & { readonly columns?: readonly string[] }
  readonly column?: Table & { readonly columnName: string; readonly columnType: string }
  readonly user?: { readonly user: string }
}

interface Asked {
  readonly user: string
  readonly operation: string
  readonly resource: Resource
  readonly filterResources: readonly Resource[]
}

type Read = (asked: Asked) => Pick<PolicyRequest, 'questions' | 'answer'>

/** Of Trino's own tables those that are everybody's: filtered by what the same questions answer. */
const SYSTEM = 'system'
const SYSTEM_TABLES: Readonly<Record<string, readonly string[] | 'all'>> = { jdbc: 'all', runtime: ['queries'] }
const DESCRIPTIONS = 'information_schema'

const NOTHING: PolicyQuestion = { about: 'nothing' }

/** By the path, as Trino’s `opa.policy.…-uri` settings name them. */
const READ: Readonly<Record<string, Read>> = {
  allow: ({ operation, resource }) => ({
    questions: [questionOf(operation, resource)],
    answer: ([isAllowed]) => isAllowed === true,
  }),
  batch: readBatch,
  // Rows of a table that may not be read do not exist, whatever was answered before.
  'row-filters': ({ resource }) => ({
    questions: [tableQuestion(resource.table, 'table')],
    answer: ([isAllowed]) => (isAllowed === true ? [] : [{ expression: 'false' }]),
  }),
  'column-masks': readMasks,
}

export const trinoPolicy: PolicyProtocol = {
  read(path, body) {
    const read = Object.hasOwn(READ, path) ? READ[path] : undefined
    if (read === undefined) return null
    const asked = askedOf(body)
    const { questions, answer } = read(asked)
    return { user: asked.user, questions, answer: (allowed) => ({ result: answer(allowed) }) }
  },
}

function questionOf(operation: string, { catalog, schema, table, user }: Resource): PolicyQuestion {
  switch (operation) {
    case 'ExecuteQuery':
      return { about: 'statement' }
    case 'CreateCatalog':
    case 'DropCatalog':
    case 'ShowCatalogs':
      return { about: 'operation' }
    case 'AccessCatalog':
    case 'FilterCatalogs':
    case 'ShowSchemas':
      return catalogQuestion(catalog?.name ?? '')
    case 'FilterSchemas':
    case 'ShowTables':
      return schemaQuestion(schema?.catalogName ?? '', schema?.schemaName ?? '')
    case 'FilterTables':
    case 'ShowColumns':
    case 'FilterColumns':
      return tableQuestion(table, 'table')
    case 'SelectFromColumns':
      return tableQuestion(table, 'rows')
    case 'ViewQueryOwnedBy':
    case 'FilterViewQueryOwnedBy':
    case 'KillQueryOwnedBy':
      return user === undefined ? NOTHING : { about: 'others-statement', owner: user.user }
    default:
      return NOTHING
  }
}

const catalogQuestion = (catalog: string): PolicyQuestion =>
  catalog === SYSTEM ? { about: 'own' } : { about: 'catalog', catalog }

const schemaQuestion = (catalog: string, schema: string): PolicyQuestion =>
  catalog === SYSTEM ? { about: 'own' } : { about: 'schema', catalog, schema }

function tableQuestion(table: Table | undefined, about: 'table' | 'rows'): PolicyQuestion {
  if (table === undefined) return NOTHING
  const { catalogName: catalog, schemaName: schema, tableName: name } = table
  if (name.includes('$')) return NOTHING
  if (schema === DESCRIPTIONS) return catalogQuestion(catalog)
  if (catalog === SYSTEM) return isSystemTable(schema, name) ? { about: 'own' } : NOTHING
  return { about, table: { catalog, schema, table: name } }
}

function isSystemTable(schema: string, name: string): boolean {
  const tables = Object.hasOwn(SYSTEM_TABLES, schema) ? SYSTEM_TABLES[schema] : []
  return tables === 'all' || (tables?.includes(name) ?? false)
}

/** Whether it is a table of Trino's own: of its server, or of what a catalog has. */
export const isOwnTable = (catalog: string, schema: string): boolean => catalog === SYSTEM || schema === DESCRIPTIONS

/** Which of the resources pass, by index. Columns of one table come as one resource. */
function readBatch({ operation, filterResources }: Asked): ReturnType<Read> {
  const [only] = filterResources
  if (operation === 'FilterColumns' && only?.table !== undefined) {
    const { columns = [] } = only.table
    const questions = filterResources.length === 1 ? [questionOf(operation, only)] : []
    return { questions, answer: ([isAllowed]) => (isAllowed === true ? columns.map((_, index) => index) : []) }
  }
  const questions = filterResources.map((resource) => questionOf(operation, resource))
  return { questions, answer: (allowed) => allowed.flatMap((isAllowed, index) => (isAllowed ? [index] : [])) }
}

/** A mask for every index that needs one: an index that is left out is one whose column may be read as it is. */
function readMasks({ filterResources }: Asked): ReturnType<Read> {
  const columns = filterResources.map(({ column }) => {
    if (column === undefined) throw malformed('a mask is asked for something that is no column')
    return column
  })
  return {
    questions: columns.map((column) => tableQuestion(column, 'table')),
    answer: (allowed) =>
      columns.flatMap(({ columnType }, index) => {
        if (allowed[index] === true) return []
        return [{ index, viewExpression: { expression: `CAST(NULL AS ${typeText(columnType)})` } }]
      }),
  }
}

/** Becomes part of a statement: a type as Trino writes it, and nothing that could be more than that. */
function typeText(type: string): string {
  if (/^[a-z][a-z0-9_ (),]*$/i.test(type) && isBalanced(type)) return type
  throw malformed('a mask is asked for a column of a type that is not known')
}

function isBalanced(text: string): boolean {
  let depth = 0
  for (const character of text) {
    if (character === '(') depth += 1
    if (character === ')') depth -= 1
    if (depth < 0) return false
  }
  return depth === 0
}

function askedOf(body: unknown): Asked {
  const { context, action } = recordOf(recordOf(body)['input'])
  const { operation, resource, filterResources } = recordOf(action)
  const user = recordOf(recordOf(context)['identity'])['user']
  const resources = filterResources ?? []
  if (typeof operation !== 'string' || typeof user !== 'string' || !Array.isArray(resources)) throw unknownForm()
  return { user, operation, resource: recordOf(resource ?? {}), filterResources: resources.map(recordOf) }
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw unknownForm()
}

const unknownForm = (): SluiceError => malformed('the question is not one of the protocol')

function malformed(message: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, {
    code: 'trino_question_malformed',
    remedy: 'Use the version of Trino that this runtime is made for.',
  })
}
