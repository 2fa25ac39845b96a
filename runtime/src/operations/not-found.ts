import { SluiceError } from '@sluice/sdk'

/** Of what has no name, or is found in a list that is not at hand, where to look for it. */
const WHERE_TO_LOOK: Readonly<Record<string, string>> = {
  ingestion: 'Check the id; the list of runs (GET /api/v1/ingestion, sluice logs) has the newest.',
  grant: 'Check the id; the list of grants has those that there are.',
  version: 'Take a version that was in service: the list of deployments names them.',
  snapshot: 'Take an id from the list of snapshots (sluice product snapshots).',
  manifests: 'Upload manifests, or check the version.',
  erasure: 'Check the id; the list of erasures of the connection has it.',
  service_password: 'Check the id; it may be deleted. The list of service passwords has those that there are.',
}

export function notFound(what: string): SluiceError {
  const called = what === 'manifests' ? 'there are no such manifests' : `there is no such ${what.replaceAll('_', ' ')}`
  return new SluiceError('INVALID_DATA', what === 'ingestion' ? `${called} run` : called, {
    code: `${what}_not_found`,
    remedy: WHERE_TO_LOOK[what] ?? 'Check the id or the name.',
  })
}
