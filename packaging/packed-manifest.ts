/** A workspace's package.json as it is packed: what points at sources then points at what was compiled from them. */

type ExportTarget = string | { readonly [condition: string]: ExportTarget }

export interface WorkspaceManifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
  readonly exports?: Readonly<Record<string, ExportTarget>>
  readonly [field: string]: unknown
}

/** Of no use to whoever installs the package. */
const DEVELOPMENT_FIELDS = ['scripts', 'devDependencies']

/**
 * `./index.ts` becomes `./dist/index.js` with its declarations; exports that were not compiled, being for this
 * repository's tests, are left out. Everything else about the package stays.
 */
export function packedManifest(
  manifest: WorkspaceManifest,
  isCompiled: (target: string) => boolean,
): WorkspaceManifest {
  const kept = Object.entries(manifest).filter(([field]) => !DEVELOPMENT_FIELDS.includes(field))
  const exports = Object.entries(manifest.exports ?? {})
    .map(([subpath, target]) => [subpath, compiled(target)] as const)
    .filter(([, target]) => typeof target === 'string' || isCompiled(String(target['default'])))
  return { ...Object.fromEntries(kept), exports: Object.fromEntries(exports) } as WorkspaceManifest
}

function compiled(target: ExportTarget): ExportTarget {
  if (typeof target !== 'string' || !target.endsWith('.ts')) return target
  const stem = `./dist/${target.slice('./'.length, -'.ts'.length)}`
  return { types: `${stem}.d.ts`, default: `${stem}.js` }
}
