/** The endpoint that engines outside ask what somebody may, as the configuration tells of it under the name of the engine. */
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { type ComputePlugin, type PolicyProtocol, SluiceError } from '@sluice/sdk'
import { issuerOfEngine, type TrustedIssuer } from '../auth/issuers.ts'
import { POLICY_KEY } from '../config/servers-beside.ts'
import type { Config } from '../config.ts'
import type { PolicyListenerOptions } from '../http/policy-listener.ts'
import { loadService, type ServiceSearch } from '../plugins/services.ts'

/** Null where no engine is to be answered. Throws CONFIG `invalid_config` where only a part of it is set. */
export async function policyEndpoint(
  config: Config,
  issuers: readonly TrustedIssuer[],
  engines: readonly { readonly policy?: PolicyProtocol | null }[],
  search: ServiceSearch,
): Promise<Omit<PolicyListenerOptions, 'logger'> | null> {
  const tls = await tlsOf(config)
  if (tls === null) return null
  const { policy_host: host, policy_port: port, issuer: named } = config[POLICY_KEY]
  const protocol = engines.find(({ policy }) => policy)?.policy ?? (await ownProtocol(search))
  return { host, port, tls, issuer: issuerOfEngine(issuers, named), protocol }
}

/** The engine that asks need be none that this runtime has a login of. */
async function ownProtocol(search: ServiceSearch): Promise<PolicyProtocol> {
  const { policy } = await loadService<ComputePlugin<never>>('compute', POLICY_KEY, search)
  if (policy !== undefined) return policy
  throw new SluiceError('CONFIG', `the plugin of kind compute called "${POLICY_KEY}" asks nothing`, {
    code: 'plugin_invalid',
    remedy: 'Take its package from "plugins", or leave the policy endpoint out.',
  })
}

async function tlsOf(config: Config): Promise<PolicyListenerOptions['tls'] | null> {
  const { policy_cert_file: own, policy_key_file: ownKey, policy_client_ca_file: ca } = config[POLICY_KEY]
  const files = [own, ownKey, ca]
  if (files.every((file) => file === undefined)) return null
  try {
    const [cert = '', key = '', clientCa = ''] = await Promise.all(
      files.map((file) => readFile(file as string, 'utf8')),
    )
    // What does not fit together is refused here, and not by whoever listens with it.
    createSecureContext({ cert, key, ca: clientCa })
    return { cert, key, clientCa }
  } catch (cause) {
    throw new SluiceError('CONFIG', 'the policy endpoint has no certificates', {
      code: 'invalid_config',
      remedy: `Name three readable files under ${POLICY_KEY}: policy_cert_file, policy_key_file and policy_client_ca_file.`,
      cause,
    })
  }
}
