/** Programs as one file each: a process that loads its modules one by one starts far later. */
import { createHash, randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import { access, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Metafile } from 'esbuild'
import { type NativePackage, type NativeParts, nativePartsOf } from './native-parts.ts'
import { asInstalled, inOwnPlaces } from './program-places.ts'

export interface BundleOptions {
  readonly dir: string
  /** Begins the names of the files in it. */
  readonly name: string
  /** The module from which the program's CommonJS parts are looked up. */
  readonly requiring: string
  /** What the program needs of these stays where it is installed, and is loaded from there at once. */
  readonly native?: readonly NativePackage[]
  /** Packages that stay where they are installed: those that look for files beside their own. */
  readonly installed?: readonly string[]
  /** Before it is made, which takes seconds: the folder does not have it. */
  onMaking?(): void
}

let building: Promise<unknown> = Promise.resolve()

/**
 * Writes the program as one file into the folder, which is made when missing, and gives its path. Repeatable: what the
 * folder has of the same sources is taken as it is. Throws where esbuild does not run.
 */
export async function bundleProgram(entry: URL, options: BundleOptions): Promise<string> {
  const kept = await keptProgram(entry, options)
  if (kept !== null) return kept
  options.onMaking?.()
  // esbuild is ended after each, and so has one at a time.
  const file = building.then(() => build(entry, options))
  building = file.catch(() => undefined)
  return file
}

/** What a program was made of, which is kept beside it. */
interface Made {
  readonly file: string
  readonly digest: string
  /** Of the file itself: one that a lost or full disk has cut off would end every process that starts from it. */
  readonly content: string
  /** Sources, the descriptions of their packages, and where packages that stay installed begin. */
  readonly inputs: readonly string[]
  /** Of the inputs' states, so that a start does not read them all; null: one has just been written, and may be again. */
  readonly looks: string | null
  readonly nativeParts: NativeParts
}

const recordOf = ({ dir, name }: BundleOptions) => join(dir, `${name}.json`)

/** What the folder has of these very sources, or null. */
export async function keptProgram(entry: URL, options: BundleOptions): Promise<string | null> {
  try {
    const made = JSON.parse(await readFile(recordOf(options), 'utf8')) as Made
    const file = join(options.dir, made.file)
    for (const needed of Object.values(made.nativeParts)) await access(needed)
    if (sha256(await readFile(file)) !== made.content) return null
    const looks = looksOf(entry, options, made.inputs)
    if (looks !== null && looks === made.looks) return file
    if ((await digestOf(entry, options, made.inputs)) !== made.digest) return null
    // Where it cannot be noted, the next start compares the bytes again.
    if (looks !== null) await write(recordOf(options), JSON.stringify({ ...made, looks })).catch(() => undefined)
    return file
  } catch {
    return null
  }
}

const sha256 = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex')

const askedFor = (entry: URL, { requiring, native = [], installed = [] }: BundleOptions) =>
  JSON.stringify([entry.href, requiring, native, installed])

/** A file that was written so recently may be written again without another time. */
const RECENT_MS = 2_000

/**
 * Sizes, places on the disk and times of the sources; null where one was changed a moment ago. Packages are unpacked with one
 * and the same time of content for all files, but not of change, which nobody sets.
 */
function looksOf(
  entry: URL,
  options: BundleOptions,
  inputs: readonly string[],
  lookedAtMs = Date.now(),
): string | null {
  const hash = createHash('sha256').update(askedFor(entry, options))
  const recentMs = lookedAtMs - RECENT_MS
  for (const path of inputs) {
    const { size, ino, mtimeMs, ctimeMs } = statSync(path)
    if (ctimeMs > recentMs) return null
    hash.update(`${path}\0${size} ${ino} ${mtimeMs} ${ctimeMs}\n`)
  }
  return hash.digest('hex')
}

/** A program has thousands of sources, and a process may open no more than some hundred files on many a machine. */
const OPEN_AT_ONCE = 32

/** Of the sources' bytes. */
async function digestOf(entry: URL, options: BundleOptions, inputs: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([askedFor(entry, options), inputs]))
  // Of each, so that what moves from the end of one to the beginning of the next counts.
  for (let at = 0; at < inputs.length; at += OPEN_AT_ONCE) {
    const some = inputs.slice(at, at + OPEN_AT_ONCE).map((path) => readFile(path))
    for (const bytes of await Promise.all(some)) hash.update(sha256(bytes))
  }
  return hash.digest('hex')
}

/** How often a program is made whose sources are written meanwhile. */
const MAX_TRIES = 3

interface Packed {
  readonly program: Uint8Array
  readonly inputs: readonly string[]
  readonly digest: string
}

/** Throws where its sources are written all the time. */
async function settled(entry: URL, options: BundleOptions, pack: () => Promise<Packed>) {
  const startedMs = Date.now()
  let packed = await pack()
  const looks = looksOf(entry, options, packed.inputs, startedMs)
  // One that was written meanwhile may be another in the program than in the digest. Between two equal digests, none was.
  for (let tries = 1; looks === null; tries++) {
    if (tries === MAX_TRIES) throw new Error(`${fileURLToPath(entry)} or what it imports is being written`)
    const before = packed.digest
    packed = await pack()
    if (packed.digest === before) break
  }
  return { ...packed, looks }
}

async function build(entry: URL, options: BundleOptions): Promise<string> {
  const { dir, name, requiring, native = [], installed = [] } = options
  const nativeParts = await nativePartsOf(native)
  const { koffi, ...others } = nativeParts
  // Whoever starts it from whichever folder makes the same file.
  const from = dirname(fileURLToPath(entry))
  const { build: run, stop } = await import('esbuild')
  const pack = async (): Promise<Packed> => {
    const { outputFiles, metafile } = await run({
      entryPoints: [fileURLToPath(entry)],
      absWorkingDir: from,
      bundle: true,
      write: false,
      metafile: true,
      platform: 'node',
      format: 'esm',
      target: 'node22',
      external: [...native.filter((one) => nativeParts[one] === undefined), '*.node'],
      alias: others,
      // What is looked up is found as from the module that looks, and by CommonJS parts as from the driver.
      plugins: [inOwnPlaces(), asInstalled(installed)],
      define: {
        'import.meta.url': JSON.stringify(entry.href),
        ...(koffi === undefined ? {} : { KOFFI_PART: JSON.stringify(koffi) }),
      },
      banner: {
        js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(${JSON.stringify(requiring)})`,
      },
      logLevel: 'silent',
    })
    const inputs = await inputsOf(metafile, from)
    return {
      program: outputFiles[0]?.contents ?? new Uint8Array(),
      inputs,
      digest: await digestOf(entry, options, inputs),
    }
  }
  try {
    const { program, inputs, digest, looks } = await settled(entry, options, pack)
    // Another program has another name: processes of a former release may still start from theirs.
    const file = `${name}-${digest.slice(0, 16)}.mjs`
    await mkdir(dir, { recursive: true, mode: 0o700 })
    await write(join(dir, file), program)
    const made: Made = { file, digest, content: sha256(program), inputs, looks, nativeParts }
    await write(recordOf(options), JSON.stringify(made))
    await forgetFormer(options, file)
    return join(dir, file)
  } finally {
    await stop()
  }
}

/** What the program depends on: a package that was moved, or exports other modules, is another program. */
async function inputsOf({ inputs, outputs }: Metafile, from: string): Promise<readonly string[]> {
  const sources = Object.keys(inputs).map((input) => resolve(from, input))
  const installed = Object.values(outputs)
    .flatMap(({ imports }) => imports.filter(({ external }) => external === true))
    .map(({ path }) => (path.startsWith('file:') ? fileURLToPath(path) : path))
    .filter(isAbsolute)
  const known = new Map<string, Promise<readonly string[]>>()
  const described: string[] = []
  // One after the other, each folder once: see `OPEN_AT_ONCE`.
  for (const path of [...sources, ...installed]) described.push(...(await descriptionsAbove(dirname(path), known)))
  return [...new Set([...sources, ...installed, ...described])].sort()
}

/** The package.json of the folder or the nearest above it, and those further above until one that names a package. */
async function descriptionsAbove(
  folder: string,
  known: Map<string, Promise<readonly string[]>>,
): Promise<readonly string[]> {
  const above = () => (dirname(folder) === folder ? Promise.resolve([]) : descriptionsAbove(dirname(folder), known))
  const found = async (): Promise<readonly string[]> => {
    const path = join(folder, 'package.json')
    const text = await readFile(path, 'utf8').catch(() => null)
    if (text === null) return above()
    return /"name"\s*:/.test(text) ? [path] : [path, ...(await above())]
  }
  const here = known.get(folder) ?? found()
  known.set(folder, here)
  return here
}

/** The file is complete when it appears, whoever else writes it. */
async function write(file: string, content: string | Uint8Array): Promise<void> {
  const draft = `${file}.${randomUUID()}`
  try {
    await writeFile(draft, content, { mode: 0o600 })
    await rename(draft, file)
  } catch (error) {
    // Each start would leave another on a full disk.
    await rm(draft, { force: true })
    throw error
  }
}

const DRAFT = /\.(?:mjs|json)\.[\w-]+$/
const FORMER_MS = 7 * 24 * 60 * 60 * 1000

/** Those that no process starts from any more, and drafts of processes that were ended. */
async function forgetFormer({ dir, name }: BundleOptions, current: string): Promise<void> {
  for (const file of await readdir(dir)) {
    const isFormer = file.startsWith(`${name}-`) && file.endsWith('.mjs') && file !== current
    const isDraft = (file.startsWith(`${name}-`) || file.startsWith(`${name}.json`)) && DRAFT.test(file)
    if (!isFormer && !isDraft) continue
    const path = join(dir, file)
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }))
    if (Date.now() - mtimeMs > FORMER_MS) await rm(path, { force: true })
  }
}
