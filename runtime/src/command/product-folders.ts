/** All products of a folder: each folder in it that has a product.yaml is one. */
import { readdir, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { Config } from '../config.ts'
import { nameRefusal } from '../manifest/names.ts'
import type { ParsedManifests } from '../manifest/parse-manifests.ts'
import { UsageError } from './arguments.ts'
import { reasonUnread } from './failures.ts'
import { namedProduct, PARTS, problemLine, readManifests } from './product-files.ts'
import { namedIn, type Ordered } from './product-order.ts'
import { plain } from './text-table.ts'

export interface FolderProduct extends Ordered {
  /** namespace.name */
  readonly name: string
  readonly namespace: string
  /** From the folder that was named, as it can be shown; `.` for itself. */
  readonly folder: string
  /** As the server registers it. */
  readonly registration: unknown
  readonly texts: Readonly<Record<string, string>>
  /** By the configuration of this machine, which may lack what a server's has. */
  readonly parsed: ParsedManifests
}

const MOST_LEVELS = 8
const MOST_FOLDERS = 10_000
const MOST_PRODUCTS = 1_000

/** Also where product.yaml is misspelt, or was forgotten: it is told then. */
function isProduct(files: readonly string[]): boolean {
  const own = files.filter((name) => PARTS.some((part) => name === `${part}.yaml`))
  return own.includes('product.yaml') || files.includes('product.yml') || own.length > 1
}

/** Folders of tools: no product lies there. */
const isLeftOut = (name: string): boolean => name.startsWith('.') || name === 'node_modules'

/**
 * Reads every product below the folder. Throws with all that is wrong with names and files at once: what was not seen
 * would be missed on the server next, or be taken for one that is to be removed.
 */
export async function readProducts(root: string, config: Config): Promise<readonly FolderProduct[]> {
  const { products, problems } = await readWhatCan(root, config)
  if (problems.length > 0) throw failed(problems)
  if (products.length === 0) throw new UsageError(`${root} has no product: no folder in it has a product.yaml`)
  return products
}

/** Every product below the folder that can be read, and what is wrong with the others. Throws where the folder itself cannot be. */
export async function readWhatCan(
  root: string,
  config: Config,
): Promise<{ readonly products: readonly FolderProduct[]; readonly problems: readonly string[] }> {
  const { manifestParser } = await import('./lint.ts')
  const parse = await manifestParser(config)
  const products: FolderProduct[] = []
  const problems: string[] = []
  for (const path of await productFolders(root)) {
    try {
      products.push(await readProduct(root, path, parse))
    } catch (error) {
      problems.push((error as Error).message.replaceAll(path, plain(path)))
    }
  }
  problems.push(...namedTwice(products))
  return { products, problems }
}

function failed(problems: readonly string[]): Error {
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  const lines = problems.map((problem) => `  ${problem.replaceAll('\n', '\n    ')}`)
  return new Error([`the folder has ${count}, and nothing was done`, ...lines].join('\n'))
}

async function readProduct(
  root: string,
  path: string,
  parse: (texts: Readonly<Record<string, string>>) => ParsedManifests,
): Promise<FolderProduct> {
  const texts = await readManifests(path)
  const { registration } = await namedProduct(texts['product'] ?? '', path)
  const { namespace } = registration
  checkName(path, 'namespace', namespace)
  checkName(path, 'name', registration.name)
  return {
    name: `${namespace}.${registration.name}`,
    namespace,
    folder: folderIn(root, path),
    registration,
    texts,
    names: namedIn(texts),
    parsed: parse(texts),
  }
}

/** As it is shown; `.` for the folder that was named. */
export const folderIn = (root: string, path: string): string => plain(relative(root, path)) || '.'

/** Before it becomes part of an address. */
function checkName(path: string, what: 'namespace' | 'name', name: string): void {
  const refusal = nameRefusal(name, what)
  if (refusal !== null) throw new UsageError(`${join(path, 'product.yaml')}: the ${what} ${refusal}`)
}

function namedTwice(products: readonly FolderProduct[]): readonly string[] {
  const byName = Map.groupBy(products, ({ name }) => name)
  return [...byName].flatMap(([name, own]) =>
    own.length === 1 ? [] : [`${name} is in several folders: ${own.map(({ folder }) => folder).join(', ')}`],
  )
}

/** What the checks of this machine's configuration find, by lines that name folder, file and place. */
export function problemsOf({ folder, parsed }: FolderProduct): readonly string[] {
  return parsed.problems.map((problem) => `${folder}/${problemLine(problem)}`)
}

/** Throws UsageError where there are too many, or one cannot be read. */
export async function productFolders(root: string): Promise<readonly string[]> {
  const found: string[] = []
  let seen = 0
  const look = async (path: string, level: number): Promise<void> => {
    seen += 1
    if (seen > MOST_FOLDERS) throw new UsageError(`${root} has more than ${MOST_FOLDERS} folders in it`)
    if (level > MOST_LEVELS) throw new UsageError(`${plain(path)} lies deeper than ${MOST_LEVELS} folders in ${root}`)
    const entries = await entriesOf(path)
    if (isProduct(entries.map(({ name }) => name))) found.push(path)
    if (found.length > MOST_PRODUCTS) throw new UsageError(`${root} has more than ${MOST_PRODUCTS} products in it`)
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      if (isLeftOut(entry.name)) continue
      const inner = join(path, entry.name)
      if (entry.isDirectory()) await look(inner, level + 1)
      else if (entry.isSymbolicLink() && (await isFolder(inner))) throw linked(inner)
    }
  }
  await look(root, 0)
  return found
}

async function entriesOf(path: string) {
  return await readdir(path, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOTDIR' ? 'it is a file' : reasonUnread(error)
    throw new UsageError(`the folder ${plain(path)} cannot be read: ${why}`)
  })
}

/** Of what a link leads to; a link to nothing is none. */
const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (facts) => facts.isDirectory(),
    () => false,
  )

/** It may lead out of the folder, or around in it; passed over, its products would seem to be gone. */
const linked = (path: string): UsageError =>
  new UsageError(`${plain(path)} is a link to a folder, and links are not followed: put the folder itself there`)
