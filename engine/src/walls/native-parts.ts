/** Where the native parts of packages lie. A child that looks for them by the packages' modules spends a tenth of its start on it. */
import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { promisify } from 'node:util'

/** Packages that are nothing but a way to their native part. */
export type NativePackage = 'koffi' | '@duckdb/node-bindings'

/** Absolute paths; a package whose part is not found has none. */
export type NativeParts = Readonly<Partial<Record<NativePackage, string>>>

const run = promisify(execFile)

const ASKING = `const [from, ...names] = process.argv.slice(1)
const require = process.getBuiltinModule('node:module').createRequire(from)
const parts = {}
for (const name of names) {
  const before = new Set(Object.keys(require.cache))
  try {
    require(name)
  } catch {
    // It has none for this machine.
    continue
  }
  const part = Object.keys(require.cache).find((file) => file.endsWith('.node') && !before.has(file))
  if (part !== undefined) parts[name] = part
}
process.stdout.write(JSON.stringify(parts))`

/** Asks a process that loads them, since which part fits the machine is the packages' own to know, and loading one here would stay. */
export async function nativePartsOf(packages: readonly NativePackage[]): Promise<NativeParts> {
  if (packages.length === 0) return {}
  const driver = createRequire(import.meta.url).resolve('@duckdb/node-api')
  const parts: NativeParts[] = []
  for (const from of [import.meta.filename, driver]) {
    const { stdout } = await run(process.execPath, ['--no-warnings', '-e', ASKING, from, ...packages])
    parts.push(JSON.parse(stdout))
  }
  return Object.assign({}, ...parts)
}
