// kit.mjs - the packages under test, from the folder of tools/interop-setup.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(process.env.E2B_PACKAGES, 'node_modules', 'x.js'))
export const load = async (name) => import(pathToFileURL(require.resolve(name)))
export const e2b = await load('e2b').then((loaded) => loaded.Sandbox ? loaded : loaded.default)
