/** The six manifests of a product in a folder: read, and written to begin with. */
import { isUtf8 } from 'node:buffer'
import { open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { nearest } from '../parsing/suggestion.ts'
import { UsageError } from './arguments.ts'
import { makeFolder, reasonUnread, refusedIn } from './failures.ts'

export const PARTS = ['product', 'inputs', 'output', 'quality', 'serving', 'compute']

/** A server takes no larger one. */
const MOST_BYTES = 256 * 1024

/** Something wrong in a manifest, as the server and the checks say it. */
export interface ProblemLine {
  readonly manifest: string
  readonly line: number
  readonly column: number
  readonly message: string
  readonly hint?: string
}

export function problemLine({ manifest, line, column, message, hint }: ProblemLine): string {
  return `${manifest}.yaml:${line}:${column} ${message}${hint ? ` (${hint})` : ''}`
}

/** The texts of the six manifests. Throws where one is missing, and says which file was probably meant to be it. */
export async function readManifests(folder: string): Promise<Readonly<Record<string, string>>> {
  const files = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOTDIR' ? 'it is a file' : reasonUnread(error)
    throw new UsageError(`the folder ${folder} cannot be read: ${why}`)
  })
  const missing = PARTS.filter((part) => !files.includes(`${part}.yaml`))
  if (missing.length > 0) {
    const others = files.filter((file) => !PARTS.some((part) => file === `${part}.yaml`))
    throw new UsageError(`${folder} lacks ${missing.map((part) => lacking(part, others)).join(', ')}`)
  }
  const texts = PARTS.map(async (part) => [part, await textOf(join(folder, `${part}.yaml`))] as const)
  return Object.fromEntries(await Promise.all(texts))
}

function lacking(part: string, others: readonly string[]): string {
  const meant = others.find((file) => file === `${part}.yml`) ?? nearest(`${part}.yaml`, others)
  return meant === undefined ? `${part}.yaml` : `${part}.yaml (it has ${meant})`
}

/** What would never end, or fill the memory, is not begun. */
async function textOf(file: string): Promise<string> {
  try {
    const facts = await stat(file)
    if (facts.isFile() && facts.size > MOST_BYTES) throw new UsageError(`${file} is larger than 256 KiB`)
    if (!facts.isFile() && !facts.isDirectory()) throw new UsageError(`${file} is no file`)
    const bytes = await readFile(file)
    // Read as a text, its odd bytes would become marks that stand in their place, and be deployed so.
    if (!isUtf8(bytes)) throw new UsageError(`${file} is not UTF-8 text; save it in the encoding UTF-8`)
    return bytes.toString()
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`${file} cannot be read: ${reasonUnread(error)}`)
  }
}

/** What the folder's product is called, and what it is registered as. Throws where product.yaml does not say it. */
export async function namedProduct(text: string, folder: string) {
  const { readYaml } = await import('../manifest/read-yaml.ts')
  const reading = readYaml('product', Buffer.from(text))
  if (!reading.ok) throw new Error([`${folder} has problems`, ...reading.problems.map(problemLine)].join('\n'))
  const { name, namespace, archetype, description } = reading.file.value as Readonly<Record<string, unknown>>
  if (typeof name !== 'string' || typeof namespace !== 'string') {
    throw new UsageError(`${join(folder, 'product.yaml')} does not say name and namespace`)
  }
  return {
    path: pathOf(`${namespace}.${name}`),
    registration: { name, namespace, archetype, description: description ?? '' },
  }
}

/** @param name namespace.name */
export const pathOf = (name: string): string => `/api/v1/products/${encodeURIComponent(name)}`

/** Writes the files into `folder`; refuses to overwrite any. */
export async function initProduct(folder: string): Promise<string> {
  await writeManifests(folder, filesFor(nameFor(folder)))
  return `Six manifests are in ${folder}. Fill in connection, table and columns, then: npx sluice product plan ${shownFolder(folder)} --tenant T --version 1.0.0`
}

/** Throws where one of the six is there already. */
export async function unusedFolder(folder: string): Promise<void> {
  const files: readonly string[] = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const present = PARTS.map((part) => `${part}.yaml`).find((file) => files.includes(file))
  if (present) throw new UsageError(`${join(folder, present)} is there already; name a new folder`)
}

export async function writeManifests(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  await makeFolder(folder)
  await unusedFolder(folder)
  await writeAll(folder, files)
}

/** As a shell takes it for one word. */
export const shownFolder = (folder: string): string =>
  /^[\w./:@-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`

/** All or none: some of them would be in the way of the next try. */
async function writeAll(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  const begun: string[] = []
  try {
    for (const [name, text] of Object.entries(files)) {
      const path = join(folder, `${name}.yaml`)
      const file = await open(path, 'wx')
      begun.push(path)
      await file.writeFile(text).finally(() => file.close())
    }
  } catch (error) {
    for (const path of begun) await rm(path, { force: true })
    throw refusedIn(folder, error)
  }
}

const LONGEST_NAME = 63

/** What the folder is called, as a product may be. */
function nameFor(folder: string): string {
  const words = basename(resolve(folder))
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^[_0-9]+|_+$/g, '')
    .slice(0, LONGEST_NAME)
  return words === '' ? 'my_product' : words
}

function filesFor(name: string): Readonly<Record<string, string>> {
  const head = (kind: string) => `apiVersion: svc/v1\nkind: ${kind}\n`
  return {
    product: `${head('Product')}name: ${name}\nnamespace: core\narchetype: source_aligned\ndescription: ""\nclassification: internal\n`,
    inputs: `${head('Inputs')}inputs:\n  - name: ${name}\n    connection: my_connection\n    table: public.${name}\n    mode: full\n`,
    output: `${head('Output')}format: iceberg\nschema:\n  - { name: id, type: long, role: identity, nullable: false }\n  - { name: name, type: string, classification: pii.name }\n`,
    quality: `${head('Quality')}checks:\n  - name: id_is_unique\n    unique: [id]\n`,
    serving: `${head('Serving')}endpoints:\n  - type: lookup\n  - type: analytics\n`,
    compute: `${head('Compute')}engine: auto\ntrigger: on_ingestion\n`,
  }
}
