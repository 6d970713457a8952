// A third-party identity provider, certified for OpenID Connect, with its own sign-in pages. It identifies users by their
// email, and prints its issuer when it listens. The argument is the redirect URL of its only client.

import { createServer } from "node:http";
import Provider from "oidc-provider";

const [redirectUrl] = process.argv.slice(2);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "causerie", client_secret: "a secret: 100%", redirect_uris: [redirectUrl] }],
    claims: { email: ["email", "email_verified"] },
    findAccount: (_, email) => ({
      accountId: email,
      claims: () => ({ sub: email, email, email_verified: true }),
    }),
  });
  server.on("request", provider.callback());
  process.stdout.write(`${issuer}\n`);
});
