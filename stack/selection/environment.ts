/** The variables that a suite's result may hang on. */
import { delimiter } from 'node:path'

const READ_IN_CODE = /\bprocess\.env(?:(?:\?\.)?\[\s*['"](\w+)['"]\s*\]|\??\.(\w+))/g
const READ_IN_PYTHON = /\benviron(?:\.get\(|\[)\s*['"](\w+)['"]/g

/** How Node and everybody's clocks and texts behave: nobody reads them by name. */
const READ_BY_ALL = ['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS', 'TZ', 'LANG', 'LC_ALL']
/** Where downloads and compiled code are kept. */
const PLACES_OF_CACHES = new Set(['SLUICE_TEST_CACHE_DIR', 'XDG_CACHE_HOME', 'NODE_COMPILE_CACHE', 'npm_config_cache'])

export function namesRead(text: string): readonly string[] {
  const found = [...text.matchAll(READ_IN_CODE), ...text.matchAll(READ_IN_PYTHON)]
  return found.map(([, quoted, plain]) => quoted ?? (plain as string))
}

/** Those that are set, of the names and of all that begin with `SLUICE_`; the same in whatever folder the checkout is. */
export function environmentOf(
  names: Iterable<string>,
  environment: NodeJS.ProcessEnv,
  root: string,
): Readonly<Record<string, string>> {
  const own = Object.keys(environment).filter((name) => name.startsWith('SLUICE_'))
  const wanted = [...new Set([...names, ...own, ...READ_BY_ALL])].filter((name) => !PLACES_OF_CACHES.has(name)).sort()
  const values = wanted.flatMap((name) => {
    const value = environment[name]
    return value === undefined ? [] : [[name, name === 'PATH' ? foreignPath(value) : value.replaceAll(root, '.')]]
  })
  return Object.fromEntries(values)
}

/** npm puts the checkout's own programs, and those of all folders above it, before the machine's. */
function foreignPath(path: string): string {
  const kept = path.split(delimiter).filter((folder) => !/[\\/]node_modules[\\/]/.test(folder))
  return kept.join(delimiter)
}
