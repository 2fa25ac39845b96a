/** What dbt has written into its target folder, read as somebody else's: of known fields alone, within bounds. */
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from '../arguments.ts'
import { reasonUnread } from '../failures.ts'

/** A map of JSON. Read by `fieldOf`, which passes over what an object has of its prototype. */
export type Fields = Readonly<Record<string, unknown>>

export interface DbtColumn {
  readonly name: string
  readonly description: string
  readonly dataType: string | null
  readonly meta: Fields
  readonly hasPolicyTag: boolean
  /** Kinds: `not_null`, `primary_key`, `unique`. */
  readonly constraints: readonly string[]
}

export interface DbtTest {
  readonly name: string
  readonly namespace: string | null
  readonly arguments: Fields
}

export interface DbtNode {
  readonly id: string
  /** model, seed, snapshot, source, test … */
  readonly kind: string
  readonly name: string
  /** What the warehouse calls it. */
  readonly relation: { readonly database: string | null; readonly schema: string; readonly name: string }
  /** The same as SQL, where the manifest has it. */
  readonly relationName: string | null
  readonly materialized: string
  readonly language: string
  readonly config: Fields
  /** Null where it was not compiled. */
  readonly compiled: string | null
  readonly raw: string
  readonly columns: readonly DbtColumn[]
  readonly dependsOn: readonly string[]
  readonly macros: readonly string[]
  readonly description: string
  readonly tags: readonly string[]
  readonly meta: Fields
  readonly group: string | null
  readonly version: string | null
  /** Of the model as a whole. */
  readonly constraints: readonly { readonly kind: string; readonly columns: readonly string[] }[]
  readonly path: string
  /** Of generic tests. */
  readonly test: DbtTest | null
  readonly attachedTo: string | null
  readonly testColumn: string | null
}

export interface CatalogColumn {
  readonly name: string
  readonly type: string
}

export interface DbtProject {
  readonly name: string
  readonly adapter: string
  readonly nodes: ReadonlyMap<string, DbtNode>
  /** By node, its columns in their order; empty without catalog.json. */
  readonly catalog: ReadonlyMap<string, readonly CatalogColumn[]>
  readonly groups: ReadonlyMap<string, { readonly email: string | null }>
  readonly exposures: readonly string[]
  /** Whether one of these macros asks the warehouse when it is compiled. */
  asksWarehouse(macros: readonly string[]): boolean
}

const MB = 1024 * 1024
const MOST_BYTES = 256 * MB
const MOST_NODES = 100_000
const MOST_COLUMNS = 2_000
const MOST_LISTED = 10_000

export async function readProject(folder: string): Promise<DbtProject> {
  const manifest = await jsonIn(join(folder, 'manifest.json'))
  if (manifest === null) throw new UsageError(`${folder} has no manifest.json: it is the folder that dbt calls target`)
  const catalog = await jsonIn(join(folder, 'catalog.json'))
  return projectOf(manifest, catalog)
}

async function jsonIn(path: string): Promise<unknown> {
  let text: string
  try {
    const facts = await stat(path)
    if (!facts.isFile()) throw new UsageError(`${path} is no file`)
    if (facts.size > MOST_BYTES) throw new UsageError(`${path} is larger than ${MOST_BYTES / MB} MiB`)
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof UsageError) throw error
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new UsageError(`${path} cannot be read: ${reasonUnread(error)}`)
  }
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''))
  } catch {
    throw new UsageError(`${path} is no JSON`)
  }
}

export function fieldOf(value: unknown, name: string): unknown {
  return isMap(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

const isMap = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
export const mapOf = (value: unknown): Fields => (isMap(value) ? value : {})

export function textsOf(value: unknown): readonly string[] {
  const list = Array.isArray(value) ? value.slice(0, MOST_LISTED) : [value]
  return list.filter((item) => typeof item === 'string')
}

function entriesOf(value: unknown, what: string): readonly (readonly [string, unknown])[] {
  const entries = Object.entries(mapOf(value))
  if (entries.length > MOST_NODES) throw new UsageError(`the project has more than ${MOST_NODES} ${what}`)
  return entries
}

/** Throws UsageError where it is none. */
export function projectOf(manifest: unknown, catalog: unknown = null): DbtProject {
  const metadata = fieldOf(manifest, 'metadata')
  if (!isMap(fieldOf(manifest, 'nodes')) || textOf(fieldOf(metadata, 'dbt_schema_version')) === null) {
    throw new UsageError('manifest.json is no manifest of dbt: it has no nodes, or does not say its version')
  }
  const sections = [
    ...entriesOf(fieldOf(manifest, 'nodes'), 'nodes'),
    ...entriesOf(fieldOf(manifest, 'sources'), 'sources'),
  ]
  const nodes = sections.filter(([, value]) => isMap(value)).map(([id, value]) => nodeOf(id, mapOf(value)))
  return {
    name: textOf(fieldOf(metadata, 'project_name')) ?? '',
    adapter: (textOf(fieldOf(metadata, 'adapter_type')) ?? '').toLowerCase(),
    nodes: new Map(nodes.map((node) => [node.id, node])),
    catalog: catalogOf(catalog),
    groups: new Map(entriesOf(fieldOf(manifest, 'groups'), 'groups').map(([, value]) => groupOf(value))),
    exposures: entriesOf(fieldOf(manifest, 'exposures'), 'exposures').map(
      ([id, value]) => textOf(fieldOf(value, 'name')) ?? id,
    ),
    asksWarehouse: asking(fieldOf(manifest, 'macros')),
  }
}

function groupOf(value: unknown): readonly [string, { readonly email: string | null }] {
  const [email = null] = textsOf(fieldOf(fieldOf(value, 'owner'), 'email'))
  return [textOf(fieldOf(value, 'name')) ?? '', { email }]
}

function nodeOf(id: string, value: Fields): DbtNode {
  const get = (name: string) => textOf(fieldOf(value, name))
  const config = mapOf(fieldOf(value, 'config'))
  const name = get('name') ?? id
  const version = fieldOf(value, 'version')
  return {
    id,
    kind: get('resource_type') ?? '',
    name,
    relation: {
      database: get('database'),
      schema: get('schema') ?? '',
      name: get('identifier') ?? get('alias') ?? name,
    },
    relationName: get('relation_name'),
    materialized: textOf(fieldOf(config, 'materialized')) ?? '',
    language: get('language') ?? 'sql',
    config,
    compiled: get('compiled_code') ?? get('compiled_sql'),
    raw: get('raw_code') ?? get('raw_sql') ?? '',
    columns: columnsOf(fieldOf(value, 'columns')),
    dependsOn: textsOf(fieldOf(fieldOf(value, 'depends_on'), 'nodes')),
    macros: textsOf(fieldOf(fieldOf(value, 'depends_on'), 'macros')),
    description: get('description') ?? '',
    tags: [...textsOf(fieldOf(value, 'tags')), ...textsOf(fieldOf(config, 'tags'))],
    meta: { ...mapOf(fieldOf(value, 'meta')), ...mapOf(fieldOf(config, 'meta')) },
    group: get('group') ?? textOf(fieldOf(config, 'group')),
    version: typeof version === 'number' || typeof version === 'string' ? String(version) : null,
    constraints: constraintsOf(fieldOf(value, 'constraints')),
    path: get('original_file_path') ?? '',
    test: testOf(fieldOf(value, 'test_metadata')),
    attachedTo: get('attached_node'),
    testColumn: get('column_name'),
  }
}

function columnsOf(value: unknown): readonly DbtColumn[] {
  return Object.entries(mapOf(value))
    .slice(0, MOST_COLUMNS)
    .map(([key, column]) => {
      const config = fieldOf(column, 'config')
      const tags = [...textsOf(fieldOf(column, 'policy_tags')), ...textsOf(fieldOf(config, 'policy_tags'))]
      return {
        name: textOf(fieldOf(column, 'name')) ?? key,
        description: textOf(fieldOf(column, 'description')) ?? '',
        dataType: textOf(fieldOf(column, 'data_type')),
        meta: { ...mapOf(fieldOf(column, 'meta')), ...mapOf(fieldOf(config, 'meta')) },
        hasPolicyTag: tags.length > 0,
        constraints: constraintsOf(fieldOf(column, 'constraints')).map(({ kind }) => kind),
      }
    })
}

function constraintsOf(value: unknown): DbtNode['constraints'] {
  if (!Array.isArray(value)) return []
  return value.slice(0, MOST_COLUMNS).map((one) => ({
    kind: textOf(fieldOf(one, 'type')) ?? '',
    columns: textsOf(fieldOf(one, 'columns')),
  }))
}

function testOf(value: unknown): DbtTest | null {
  const name = textOf(fieldOf(value, 'name'))
  if (name === null) return null
  const given = mapOf(fieldOf(value, 'kwargs'))
  // Newer projects write what a test is told into a map of its own.
  const told = { ...given, ...mapOf(fieldOf(given, 'arguments')) }
  return { name, namespace: textOf(fieldOf(value, 'namespace')), arguments: told }
}

function catalogOf(catalog: unknown): DbtProject['catalog'] {
  const sections = ['nodes', 'sources'].flatMap((name) => entriesOf(fieldOf(catalog, name), name))
  return new Map(
    sections.map(([id, value]) => {
      const columns = Object.entries(mapOf(fieldOf(value, 'columns'))).slice(0, MOST_COLUMNS)
      const placed = columns.map(([key, column]) => ({
        at: Number(fieldOf(column, 'index') ?? 0),
        name: textOf(fieldOf(column, 'name')) ?? key,
        type: textOf(fieldOf(column, 'type')) ?? '',
      }))
      return [id, placed.toSorted((a, b) => a.at - b.at).map(({ name, type }) => ({ name, type }))]
    }),
  )
}

/** Macros of dbt through which all others ask. */
const ASKING = ['macro.dbt.run_query', 'macro.dbt.statement']

function asking(macros: unknown): DbtProject['asksWarehouse'] {
  const uses = new Map(
    entriesOf(macros, 'macros').map(([id, value]) => [id, textsOf(fieldOf(fieldOf(value, 'depends_on'), 'macros'))]),
  )
  return (begun) => {
    const seen = new Set<string>(begun)
    // Grows while it is gone through.
    for (const name of seen) {
      if (ASKING.includes(name)) return true
      // What dbt itself compiles a model by is no question of the model's.
      if (!name.startsWith('macro.dbt.')) for (const used of uses.get(name) ?? []) seen.add(used)
    }
    return false
  }
}
