/** Programs of child processes as one file each: a child that loads its modules one by one starts far later. */
import { createHash, randomUUID } from 'node:crypto'
import { access, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type NativePackage, type NativeParts, nativePartsOf } from './native-parts.ts'

/**
 * Where programs of children, and their compiled code, are kept: in the folder that NODE_COMPILE_CACHE names for this
 * process, so that several runtimes share them, and else in the given one. Whoever writes there decides what runs here.
 */
export function codeFolder(otherwise: string): string {
  // Children run in another folder, which no relative name may depend on.
  return resolve(process.env['NODE_COMPILE_CACHE'] || otherwise)
}

export interface BundleOptions {
  readonly dir: string
  /** Begins the names of the files in it. */
  readonly name: string
  /** The module from which the program's CommonJS parts are looked up. */
  readonly requiring: string
  /** What the program needs of these stays where it is installed, and is loaded from there at once. */
  readonly native?: readonly NativePackage[]
}

let building: Promise<unknown> = Promise.resolve()

/**
 * Writes the program as one file into the folder, which is made when missing, and gives its path. Repeatable: what the
 * folder has of the same sources is taken as it is. Throws where esbuild does not run.
 */
export async function bundleProgram(entry: URL, options: BundleOptions): Promise<string> {
  const kept = await keptProgram(entry, options)
  if (kept !== null) return kept
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
  readonly inputs: readonly string[]
  readonly nativeParts: NativeParts
}

const recordOf = ({ dir, name }: BundleOptions) => join(dir, `${name}.json`)

/** Null where there is none of these sources. */
async function keptProgram(entry: URL, options: BundleOptions): Promise<string | null> {
  try {
    const made = JSON.parse(await readFile(recordOf(options), 'utf8')) as Made
    const file = join(options.dir, made.file)
    for (const needed of Object.values(made.nativeParts)) await access(needed)
    if (sha256(await readFile(file)) !== made.content) return null
    return (await digestOf(entry, options, made.inputs)) === made.digest ? file : null
  } catch {
    return null
  }
}

const sha256 = (content: string | Uint8Array): string => createHash('sha256').update(content).digest('hex')

/** Of the sources' bytes: packages are unpacked with one and the same time for all files. */
async function digestOf(
  entry: URL,
  { requiring, native = [] }: BundleOptions,
  inputs: readonly string[],
): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([entry.href, requiring, native, inputs]))
  for (const bytes of await Promise.all(inputs.map((path) => readFile(path)))) hash.update(bytes)
  return hash.digest('hex')
}

async function build(entry: URL, options: BundleOptions): Promise<string> {
  const { dir, name, requiring, native = [] } = options
  const nativeParts = await nativePartsOf(native)
  const { koffi, ...others } = nativeParts
  const { build: run, stop } = await import('esbuild')
  try {
    const { outputFiles, metafile } = await run({
      entryPoints: [fileURLToPath(entry)],
      bundle: true,
      write: false,
      metafile: true,
      platform: 'node',
      format: 'esm',
      target: 'node22',
      external: [...native.filter((one) => nativeParts[one] === undefined), '*.node'],
      alias: others,
      // What is looked up is found as from the program itself, and by CommonJS parts as from the driver.
      define: {
        'import.meta.url': JSON.stringify(entry.href),
        ...(koffi === undefined ? {} : { KOFFI_PART: JSON.stringify(koffi) }),
      },
      banner: {
        js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(${JSON.stringify(requiring)})`,
      },
      logLevel: 'silent',
    })
    const paths = Object.keys(metafile.inputs)
      .map((input) => resolve(input))
      .sort()
    const digest = await digestOf(entry, options, paths)
    // Another program has another name: processes of a former release may still start from theirs.
    const file = `${name}-${digest.slice(0, 16)}.mjs`
    await mkdir(dir, { recursive: true, mode: 0o700 })
    const program = outputFiles[0]?.contents ?? ''
    await write(join(dir, file), program)
    const made: Made = { file, digest, content: sha256(program), inputs: paths, nativeParts }
    await write(recordOf(options), JSON.stringify(made))
    await forgetFormer(options, file)
    return join(dir, file)
  } finally {
    await stop()
  }
}

/** The file is complete when it appears, whoever else writes it. */
async function write(file: string, content: string | Uint8Array): Promise<void> {
  const draft = `${file}.${randomUUID()}`
  await writeFile(draft, content, { mode: 0o600 })
  await rename(draft, file)
}

const FORMER_MS = 7 * 24 * 60 * 60 * 1000

/** Those that no process starts from any more. */
async function forgetFormer({ dir, name }: BundleOptions, current: string): Promise<void> {
  for (const file of await readdir(dir)) {
    if (!file.startsWith(`${name}-`) || !file.endsWith('.mjs') || file === current) continue
    const path = join(dir, file)
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }))
    if (Date.now() - mtimeMs > FORMER_MS) await rm(path, { force: true })
  }
}
