/** Trino's questions, in the words of its Open Policy Agent protocol, and our answers. */
import { SluiceError } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import { rawDomain } from '../../materializer/inputs.ts'
import { findTenant } from '../../registry/tenants.ts'
import type { CatalogDeps } from './deps.ts'
import { mayUseCatalog, recordRead, type TrinoTable, tableAccess } from './trino-access.ts'

interface Resource {
  readonly catalog?: { readonly name: string }
  readonly schema?: { readonly catalogName: string; readonly schemaName: string }
  readonly table?: TrinoTable & { readonly columns?: readonly string[] }
  readonly column?: TrinoTable & { readonly columnName: string; readonly columnType: string }
  readonly user?: { readonly user: string }
}

export interface TrinoQuestion {
  readonly user: string
  /** Null where the user is nobody that the issuer has named. */
  readonly principal: Principal | null
  readonly operation: string
  readonly resource?: Resource
  readonly filterResources: readonly Resource[]
}

/** What answering needs of the request. */
export type Asking = Pick<TenantCall, 'requestId' | 'signal'>

/** Trino's own logins of the platform: they make and drop catalogs and read what no person is allowed to. */
const OPERATOR_OPERATIONS: ReadonlySet<string> = new Set([
  'ExecuteQuery',
  'CreateCatalog',
  'DropCatalog',
  'ShowCatalogs',
  'AccessCatalog',
  'ShowSchemas',
  'ShowTables',
  'ShowColumns',
  'SelectFromColumns',
  'FilterCatalogs',
  'FilterSchemas',
  'FilterTables',
  'FilterColumns',
  'ViewQueryOwnedBy',
  'FilterViewQueryOwnedBy',
  'KillQueryOwnedBy',
])

/** One question, yes or no. What is not listed is refused: writes, procedures, functions, impersonation, settings. */
export async function allows(platform: CatalogDeps, asking: Asking, question: TrinoQuestion): Promise<boolean> {
  const { principal, operation, resource = {}, user } = question
  if (principal === null) return false
  if (principal.isAdmin) return OPERATOR_OPERATIONS.has(operation) && !isHiddenTable(resource)
  switch (operation) {
    case 'ExecuteQuery':
      return mayBegin(platform, principal.tenant)
    case 'AccessCatalog':
    case 'FilterCatalogs':
    case 'ShowSchemas':
      return mayUseCatalog(principal, resource.catalog?.name ?? '')
    case 'FilterSchemas':
    case 'ShowTables':
      return mayUseCatalog(principal, resource.schema?.catalogName ?? '') && !isRaw(resource.schema?.schemaName ?? '')
    case 'FilterTables':
    case 'ShowColumns':
    case 'FilterColumns':
      return mayRead(platform, asking, principal, resource.table)
    case 'SelectFromColumns':
      return mayRead(platform, asking, principal, resource.table, true)
    case 'ViewQueryOwnedBy':
    case 'FilterViewQueryOwnedBy':
    case 'KillQueryOwnedBy':
      return resource.user?.user === user
    default:
      return false
  }
}

/** As the REST API refuses tokens of a tenant that is not active, and queries of one that has used its CPU time. */
async function mayBegin(platform: CatalogDeps, tenant: string | null): Promise<boolean> {
  if (tenant === null || platform.cpu.isSpent(tenant)) return false
  return (await findTenant(platform.pool, tenant))?.status === 'active'
}

/** Raw tables are read over the REST API alone; the names of their connections are not listed either. */
const isRaw = (schema: string): boolean => schema.toLowerCase().startsWith(rawDomain(''))

const isHiddenTable = ({ table }: Resource): boolean => table?.tableName.includes('$') ?? false

async function mayRead(
  platform: CatalogDeps,
  asking: Asking,
  principal: Principal | null,
  table: TrinoTable | undefined,
  isSelect = false,
): Promise<boolean> {
  if (table === undefined || principal === null || principal.tenant === null) return false
  const call = callOf(asking, principal, principal.tenant)
  if ((await tableAccess(platform, call, table)) !== 'read') return false
  if (isSelect) await recordRead(platform, call, table)
  return true
}

/** Which of the resources pass, by index. Columns of one table come as one resource. */
export async function allowedIndexes(
  platform: CatalogDeps,
  asking: Asking,
  question: TrinoQuestion,
): Promise<readonly number[]> {
  const { filterResources, operation } = question
  const [only] = filterResources
  if (operation === 'FilterColumns' && only?.table !== undefined) {
    const isAllowed = filterResources.length === 1 && (await allows(platform, asking, { ...question, resource: only }))
    return isAllowed ? (only.table.columns ?? []).map((_, index) => index) : []
  }
  const indexes: number[] = []
  for (const [index, resource] of filterResources.entries()) {
    if (await allows(platform, asking, { ...question, resource })) indexes.push(index)
  }
  return indexes
}

export interface ViewExpression {
  readonly expression: string
}

/** Rows of a table that may not be read do not exist, whatever was answered before. */
export async function rowFilters(
  platform: CatalogDeps,
  asking: Asking,
  { principal, resource }: TrinoQuestion,
): Promise<readonly ViewExpression[]> {
  if (principal?.isAdmin) return []
  return (await mayRead(platform, asking, principal, resource?.table)) ? [] : [{ expression: 'false' }]
}

/** A mask for every index that needs one: an index that is left out is one whose column may be read as it is. */
export async function columnMasks(
  platform: CatalogDeps,
  asking: Asking,
  { principal, filterResources }: TrinoQuestion,
): Promise<readonly { readonly index: number; readonly viewExpression: ViewExpression }[]> {
  if (principal?.isAdmin) return []
  const masks = []
  for (const [index, { column }] of filterResources.entries()) {
    if (column === undefined) throw malformed('a mask is asked for something that is no column')
    if (await mayRead(platform, asking, principal, column)) continue
    masks.push({ index, viewExpression: { expression: `CAST(NULL AS ${typeText(column.columnType)})` } })
  }
  return masks
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

export function callOf({ requestId, signal }: Asking, principal: Principal, tenant: string): TenantCall {
  return {
    requestId,
    signal,
    principal,
    tenant,
    traceparent: null,
    params: {},
    query: {},
    body: null,
    idempotencyKey: null,
    idempotency: null,
    lastEventId: null,
    namedTenant: null,
    mediaType: null,
    authorization: null,
  }
}

function malformed(message: string): SluiceError {
  return new SluiceError('INVALID_DATA', message, {
    code: 'trino_question_malformed',
    remedy: 'Use the version of Trino that this runtime is made for.',
  })
}
