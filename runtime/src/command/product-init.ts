/** `sluice product init FOLDER --from …`: six manifests of what is there already. */
import { readFile, stat } from 'node:fs/promises'
import { nearest } from '../parsing/suggestion.ts'
import { UsageError } from './arguments.ts'
import { type Client, ServerRefused } from './client.ts'
import { type CommandCall, REMOTE_FLAGS, word } from './command.ts'
import { draftOfProduct, type ServedProduct } from './copied-product.ts'
import type { PlanAnswer } from './deploy-answer.ts'
import { reasonUnread } from './failures.ts'
import { filesOf, type ProductDraft } from './product-draft.ts'
import { initProduct, pathOf, shownFolder, unusedFolder, writeManifests } from './product-files.ts'
import { nameFrom, namesOfFolder } from './product-names.ts'
import type { StoreOnOffer } from './proposed-parts.ts'
import { type DiscoveredTable, draftOfTable, LOG_NOTE } from './table-draft.ts'
import { plain } from './text-table.ts'

export async function initCommand(call: CommandCall): Promise<unknown> {
  const folder = word(call, 0, 'FOLDER')
  const { from, json } = call.args.flags
  if (from === undefined) {
    for (const flag of ['namespace', 'no-guess']) {
      if (call.args.flags[flag] !== undefined) throw new UsageError(`--${flag} is of use only with --from`)
    }
    const said = await initProduct(folder)
    return json ? { folder } : said
  }
  const namespace = askedNamespace(call)
  await unusedFolder(folder)
  const file = await contractFile(from)
  if (file !== null) return initFromContract(call, file, folder, namespace)
  const client = await call.client()
  const { draft, leftOut } = await draftFrom(client, from, folder, namespace, call.args.flags['no-guess'] === undefined)
  const schemas = `${client.url}/api/v1/manifest-schemas`
  await writeManifests(
    folder,
    filesOf(draft, (part) => `${schemas}/${part}`),
  )
  const isTaken = await isRegistered(client, draft)
  if (json) return { ...facts(folder, draft, leftOut), registered: isTaken }
  const said = told(call, folder, draft, leftOut)
  return isTaken ? `${said}\n${takenNote(draft)}` : said
}

/** Also where the caller may not read it: its name is taken all the same. */
async function isRegistered(client: Client, { product }: ProductDraft): Promise<boolean> {
  const { namespace, name } = product
  try {
    return (await client.find(pathOf(`${namespace}.${name}`))) !== null
  } catch (error) {
    if (error instanceof ServerRefused && error.status === 403) return true
    throw error
  }
}

const takenNote = ({ product: { namespace, name } }: ProductDraft): string =>
  `There is a product ${namespace}.${name} already: what is deployed from this folder becomes a version of it. Where another product is meant, give it another name in product.yaml.`

function askedNamespace(call: CommandCall): string | null {
  const { namespace } = call.args.flags
  if (namespace === undefined) return null
  const allowed = nameFrom(namespace, 'namespace')
  if (allowed === namespace) return namespace
  throw new UsageError(`--namespace ${namespace} cannot be one${allowed === null ? '' : `; did you mean ${allowed}?`}`)
}

interface ContractFile {
  readonly path: string
  readonly object: string | null
}

/** The file and the object that is meant: `FILE#orders`. Null where the words are no file's. */
async function contractFile(from: string): Promise<ContractFile | null> {
  const [, path = '', object = null] = /^(.*?\.(?:ya?ml|json))(?:#(.+))?$/is.exec(from) ?? []
  if (path === '') return null
  const isFile = await stat(path).then(
    (facts) => facts.isFile(),
    () => false,
  )
  // A table may be called so, too.
  return isFile || /\.odcs\.[a-z]+$/i.test(path) ? { path, object } : null
}

async function initFromContract(
  call: CommandCall,
  { path, object }: ContractFile,
  folder: string,
  namespace: string | null,
): Promise<unknown> {
  const { draftOfContract } = await import('./odcs/reading.ts')
  const { manifestParser } = await import('./lint.ts')
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${path} cannot be read: ${reasonUnread(error)}`)
  })
  const folderNamespace = namesOfFolder(folder).namespace
  const choices = { object, namespace, folderNamespace, guess: call.args.flags['no-guess'] === undefined }
  const { draft, lost } = draftOfContract(text, choices, await manifestParser(await call.config()))
  await writeManifests(folder, filesOf(draft, null))
  for (const one of lost) console.error(`not said by the manifests: ${plain(one)}`)
  if (call.args.flags['json']) return { ...facts(folder, draft, []), lost }
  return told(call, folder, draft, [])
}

interface Begun {
  readonly draft: ProductDraft
  readonly leftOut: readonly string[]
}

async function draftFrom(
  client: Client,
  from: string,
  folder: string,
  namespace: string | null,
  guess: boolean,
): Promise<Begun> {
  const origin = await originOf(client, from)
  const stores = await storesOf(client)
  if ('product' in origin) return { draft: draftOfProduct(origin.product, folder, namespace, stores), leftOut: [] }
  const names = namesOfFolder(folder)
  const choices = { name: names.name, namespace: namespace ?? names.namespace, stores, guess }
  const begun = draftOfTable(origin.connection, origin.table, choices)
  return (await isReadByLog(client, begun.draft))
    ? { ...begun, draft: { ...begun.draft, inputNotes: [LOG_NOTE] } }
    : begun
}

/** What a deployment would take for the mode that is not written, as a plan says it: whoever may not plan learns it later. */
async function isReadByLog(client: Client, draft: ProductDraft): Promise<boolean> {
  const { namespace, name } = draft.product
  const path = `${pathOf(`${namespace}.${name}`)}/plan?version=${FIRST_VERSION}`
  try {
    const files = filesOf(draft, null)
    const { plan } = (await client.upload(path, files)) as { readonly plan: PlanAnswer }
    return plan.reads.every(({ mode }) => mode === 'cdc')
  } catch (error) {
    if (error instanceof ServerRefused) return false
    throw error
  }
}

/** A number that no version has: of one that was deployed, the plan would say what that one has taken. */
const FIRST_VERSION = '0.0.0'

type Origin = { readonly product: ServedProduct } | { readonly connection: string; readonly table: DiscoveredTable }

const PRODUCT_MARK = 'product:'

/** What the words name: a table of a connection, or a product. Throws where they name neither, or both. */
async function originOf(client: Client, from: string): Promise<Origin> {
  const isMarked = from.startsWith(PRODUCT_MARK)
  const name = isMarked ? from.slice(PRODUCT_MARK.length) : from
  const product = isProductName(name) ? ((await client.find(pathOf(name))) as ServedProduct | null) : null
  if (isMarked) {
    if (product === null) throw new UsageError(`there is no product ${name} that you may read`)
    return { product }
  }
  const connections = (await client.list('/api/v1/connections')) as { readonly name: string }[]
  // A connection's name may hold dots, too: the longest that fits is meant.
  const named = connections
    .map((one) => one.name)
    .filter((one) => from.startsWith(`${one}.`))
    .toSorted((a, b) => b.length - a.length)
  const [connection] = named
  if (connection === undefined && product !== null) return { product }
  if (connection === undefined)
    throw nothingOf(
      from,
      connections.map((one) => one.name),
    )
  const table = from.slice(connection.length + 1)
  const tables = await discoveredTables(client, connection)
  const found = tableNamed(tables, table)
  if (found !== null && product !== null) {
    const message = `${from} is a table and a product`
    throw new UsageError(`${message}: write ${connection}.${found.schema}.${found.name}, or ${PRODUCT_MARK}${from}`)
  }
  if (found !== null) return { connection, table: found }
  if (product !== null) return { product }
  throw noTable(connection, table, tables)
}

const isProductName = (name: string): boolean => /^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$/.test(name)

export async function discoveredTables(client: Client, connection: string): Promise<readonly DiscoveredTable[]> {
  const path = `/api/v1/connections/${encodeURIComponent(connection)}/discover`
  return ((await client.request('GET', path)) as { readonly tables: readonly DiscoveredTable[] }).tables
}

/** Without a schema it is one of `public`, as inputs.yaml reads it. A schema with a dot in its name cannot be told from others. */
function tableNamed(tables: readonly DiscoveredTable[], written: string): DiscoveredTable | null {
  const sayable = tables.filter(({ schema }) => !schema.includes('.'))
  const full = sayable.find(({ schema, name }) => `${schema}.${name}` === written)
  return full ?? sayable.find(({ schema, name }) => schema === 'public' && name === written) ?? null
}

function nothingOf(from: string, connections: readonly string[]): UsageError {
  const [first = ''] = from.split('.')
  const close = nearest(first, connections)
  const hint =
    close !== undefined
      ? `; did you mean ${plain(close)}${from.slice(first.length)}?`
      : connections.length === 0
        ? '; no connection is registered'
        : `; connections are ${connections.slice(0, 10).map(plain).join(', ')}`
  return new UsageError(`--from ${from}: there is no connection of that name, and no product that you may read${hint}`)
}

const MOST_NAMED = 10

function noTable(connection: string, table: string, tables: readonly DiscoveredTable[]): UsageError {
  const names = tables.map(({ schema, name }) => `${schema}.${name}`)
  const elsewhere = tables.filter(({ name }) => name === table).map(({ schema, name }) => `${schema}.${name}`)
  const close = elsewhere[0] ?? nearest(table, names) ?? nearest(`public.${table}`, names)
  const hint =
    close !== undefined
      ? `; did you mean ${plain(`${connection}.${close}`)}?`
      : `; it has ${names.length === 0 ? 'none' : names.slice(0, MOST_NAMED).map(plain).join(', ')}`
  return new UsageError(`"${plain(connection)}" has no table "${plain(table)}"${hint}`)
}

/** The stores that the server has switched on, each by the type of endpoint that it serves. */
async function storesOf(client: Client): Promise<readonly StoreOnOffer[]> {
  const plugins = (await client.list('/api/v1/plugins')) as {
    readonly kind: string
    readonly type: string
    readonly capabilities?: { readonly types?: Readonly<Record<string, string>> }
    readonly health?: { readonly status?: string }
  }[]
  return plugins
    .filter(({ kind, health }) => kind === 'serving' && health?.status !== 'unused')
    .map(({ type, capabilities }) => {
      const refused = Object.entries(capabilities?.types ?? {}).filter(([, how]) => how === 'rejected')
      return { type, refuses: new Set(refused.map(([name]) => name)) }
    })
}

function facts(folder: string, { product, columns }: ProductDraft, leftOut: readonly string[]) {
  return {
    folder,
    product: `${product.namespace}.${product.name}`,
    columns: columns.length,
    left_out: leftOut,
    guessed: columns
      .filter(({ comment }) => comment?.includes('guessed by'))
      .map(({ name, classification, comment }) => ({ column: name, classification, reason: comment })),
  }
}

/** By which the next command finds the same server, and is the same person there. */
function sameFlags({ args: { flags } }: CommandCall): string {
  const given = [...Object.keys(REMOTE_FLAGS), 'data-dir', 'config'].filter(
    (name) => name !== 'json' && Object.hasOwn(flags, name),
  )
  return given.map((name) => ` --${name} ${shownFolder(flags[name] as string)}`).join('')
}

function told(call: CommandCall, folder: string, draft: ProductDraft, leftOut: readonly string[]): string {
  const { product, columns, guessed } = facts(folder, draft, leftOut)
  const classes = guessed.map(({ column, classification }) => `  ${column}: ${classification}`)
  return [
    `Six manifests of ${product} are in ${plain(folder)}: ${columns} column${columns === 1 ? '' : 's'}.`,
    ...(classes.length === 0 ? [] : ['Classes guessed by names; correct what is wrong in output.yaml:', ...classes]),
    ...leftOut.slice(0, MOST_NAMED).map((one) => plain(one)),
    ...(leftOut.length > MOST_NAMED ? [`and ${leftOut.length - MOST_NAMED} more, which output.yaml names`] : []),
    `Then: npx sluice product plan ${shownFolder(folder)} --version 1.0.0${sameFlags(call)}`,
  ].join('\n')
}
